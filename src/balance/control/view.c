/* SPDX-License-Identifier: Apache-2.0 */
/* What services and workers are like: a state, a weight, a port, a check, where none is their own. */
#include <stdio.h>

#include "src/balance/control/model.h"

#define S 1000000000ull

enum gw_bal_state gw_bal_state_of(const struct gw_bal_worker *w)
{
    if (w->refused[0] || w->service->refused[0]) return GW_BAL_REFUSED;
    if (!w->health.up || w->silent) return GW_BAL_DOWN;
    if (w->drain || w->leave) return w->idle ? GW_BAL_DRAINED : GW_BAL_DRAINING;
    return GW_BAL_UP;
}

uint32_t gw_bal_weight_of(const struct gw_bal_worker *w)
{
    return w->health.has_weight ? w->health.weight : w->weight;
}

bool gw_bal_has_quorum(const struct gw_bal_service *s)
{
    uint64_t weight = 0;
    for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
        if (!w->sorry && gw_bal_state_of(w) == GW_BAL_UP) weight += gw_bal_weight_of(w);
    return weight >= (s->quorum ? s->quorum : 1);
}

const struct gw_bal_worker *gw_bal_sorry_server(const struct gw_bal_service *s)
{
    const struct gw_bal_worker *w = s->workers;
    while (w && (!w->sorry || w->leave)) w = w->next;
    return w;
}

void gw_bal_check_default(struct gw_bal_check *c)
{
    *c = (struct gw_bal_check){
        .kind = GW_BAL_DEFAULT_CHECK, .rise = 2, .fall = 3, .interval_ns = 2 * S, .timeout_ns = S};
    c->most = 255;
    snprintf(c->path, sizeof(c->path), "/");
    snprintf(c->model, sizeof(c->model), "identity");
}

const struct gw_bal_ask *gw_bal_ask_of(const struct gw_bal_check *c, unsigned i)
{
    return i ? &c->other[i - 1] : &c->ask;
}

bool gw_bal_check_asks(const struct gw_bal_check *c, uint8_t kind)
{
    for (unsigned i = 0; i <= c->others; i++)
        if (gw_bal_ask_of(c, i)->kind == kind) return true;
    return false;
}

uint16_t gw_bal_port_of(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    return w->port ? w->port : s->port;
}

const struct gw_bal_check *gw_bal_check_of(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    return w->has_check ? &w->check : &s->check;
}
