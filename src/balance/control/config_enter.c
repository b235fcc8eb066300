/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the services of a configuration file into the model, when the whole file has been read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/config_check.h"
#include "src/balance/control/config_plan.h"

static int checks_fit(const struct gw_bal_check *c, const char *of)
{
    for (unsigned i = 0; i <= c->others; i++) {
        const struct gw_bal_ask *a = gw_bal_ask_of(c, i);
        if (c->others && a->kind == GW_BAL_NO_CHECK)
            return gw_error(-EINVAL, "%s: NO_CHECK beside another check; remove one of them", of);
        if (a->kind == GW_BAL_MISC_CHECK && a->path[0] != '/')
            return gw_error(-EINVAL, "%s: MISC_CHECK needs misc_path, which begins with /", of);
    }
    return 0;
}

static int plan_worker(const struct gw_bal_parse *p, const struct gw_bal_plan_service *in,
                       struct gw_bal_plan_worker *w, struct gw_bal_model *m, struct gw_bal_service *s)
{
    struct gw_bal_check *c = &w->worker.check;
    int has = w->worker.sorry ? in->has_sorry_forward : w->has_forward;
    uint8_t forward = w->worker.sorry ? in->sorry_forward : w->forward;
    if (has && forward != s->forward)
        return gw_error(-EINVAL, "lb_kind %s: its service has %s; all workers of a service have one kind",
                        gw_bal_forward_names[forward], gw_bal_forward_names[s->forward]);
    if (!w->has_inhibit && !w->worker.sorry) w->worker.inhibit = in->inhibit;
    w->worker.has_check = (uint8_t)gw_bal_saids_of_worker(&in->checks, &w->checks, c);
    if (w->worker.has_check && c->kind == GW_BAL_DEFAULT_CHECK) {
        struct gw_bal_ask ask = c->ask;
        ask.kind = s->check.kind;
        c->ask = ask;
    }
    gw_bal_script_users(p->plan, c);
    int err = w->worker.has_check ? checks_fit(c, "real_server") : 0;
    return err ? err : gw_bal_add_worker(m, s, &w->worker, NULL);
}

/* A service at the address that it has now, with its workers. */
static void plan_service(struct gw_bal_parse *p, struct gw_bal_plan_service *plan)
{
    struct gw_bal_model *m = &p->config->model;
    struct gw_bal_service *s = NULL;
    gw_bal_saids_of_service(&plan->checks, &plan->service.check);
    gw_bal_script_users(p->plan, &plan->service.check);
    if (checks_fit(&plan->service.check, "virtual_server") || gw_bal_add_service(m, &plan->service, &s)) {
        gw_bal_wrong_at(p, &plan->at);
        return;
    }
    for (struct gw_bal_plan_worker *w = plan->workers; w; w = w->next) {
        uint16_t port = w->worker.port;
        if (port == s->port) w->worker.port = 0;
        if (plan_worker(p, plan, w, m, s)) gw_bal_wrong_at(p, &w->at);
        w->worker.port = port;
    }
}

/* The next address: fd00::ff is followed by fd00::100. */
static void count_up(struct gw_bal_addr *a)
{
    for (int i = a->family == 6 ? 15 : 3; i >= 0 && !++a->bytes[i]; i--) continue;
}

static void plan_group(struct gw_bal_parse *p, struct gw_bal_plan_service *s,
                       const struct gw_bal_plan_group *g)
{
    char name[GW_BAL_NAME];
    unsigned n = 0, wrongs = p->config->report.wrong.n;
    memcpy(name, s->service.name, sizeof(name));
    for (const struct gw_bal_plan_range *r = g->ranges; r; r = r->next) {
        s->service.addr = r->addr;
        s->service.port = r->port;
        for (uint32_t i = 0; i < r->count; i++, count_up(&s->service.addr)) {
            if (n++ && name[0]) snprintf(s->service.name, sizeof(s->service.name), "%.50s-%u", name, n);
            plan_service(p, s);
            /* The same mistake at each address would be one too many. */
            if (p->config->report.wrong.n != wrongs) return;
        }
    }
    if (n || g->spoiled) return;
    gw_error(-EINVAL, "virtual_server: the group %s has no address; give one", g->name);
    gw_bal_wrong_at(p, &s->at);
}

void gw_bal_plan_carry_out(struct gw_bal_parse *p)
{
    for (struct gw_bal_plan_service *s = p->plan->services; s; s = s->next) {
        const struct gw_bal_plan_group *g = p->plan->groups;
        s->first = p->config->model.next_service;
        while (g && strcmp(g->name, s->group) != 0) g = g->next;
        if (!s->group[0])
            plan_service(p, s);
        else if (g)
            plan_group(p, s, g);
        else {
            gw_error(-EINVAL, "virtual_server: no virtual_server_group is called %s", s->group);
            gw_bal_wrong_at(p, &s->at);
        }
        s->end_id = p->config->model.next_service;
    }
}
