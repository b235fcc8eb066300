/* SPDX-License-Identifier: Apache-2.0 */
/* Where things of a plan stand in the file, and the end of a plan. */
#include "src/balance/control/config_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

struct gw_bal_saids *gw_bal_plan_checks(struct gw_bal_plan *plan)
{
    return plan->worker ? &plan->worker->checks : &plan->service->checks;
}

const struct gw_bal_place *gw_bal_plan_place(const struct gw_bal_plan *plan, const struct gw_bal_service *s,
                                             const struct gw_bal_worker *w)
{
    static const struct gw_bal_place none = {"the file", 0, UINT32_MAX};
    const struct gw_bal_plan_service *of = plan->services;
    while (of && (s->id < of->first || s->id >= of->end_id)) of = of->next;
    const struct gw_bal_plan_worker *mine = of ? of->workers : NULL;
    while (w && mine && !gw_bal_addr_same(&mine->worker.addr, &w->addr)) mine = mine->next;
    return w && mine ? &mine->at : of ? &of->at : &none;
}

void gw_bal_plan_free_service(struct gw_bal_plan_service *s)
{
    for (struct gw_bal_plan_worker *w = s->workers, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(s);
}

void gw_bal_plan_free(struct gw_bal_plan *plan)
{
    for (struct gw_bal_plan_service *s = plan->services, *next; s; s = next) {
        next = s->next;
        gw_bal_plan_free_service(s);
    }
    for (struct gw_bal_plan_group *g = plan->groups, *next; g; g = next) {
        next = g->next;
        for (struct gw_bal_plan_range *r = g->ranges, *after; r; r = after) {
            after = r->next;
            free(r);
        }
        free(g);
    }
    free(plan);
}
