/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a drain whose time has passed. */
#include <stdbool.h>

#include "src/balance/control/drain.h"

uint64_t gw_bal_drain_default(uint8_t protocol)
{
    return protocol == GW_BAL_UDP ? GW_BAL_DRAIN_UDP : GW_BAL_DRAIN_ALWAYS;
}

uint64_t gw_bal_drain_limit_of(const struct gw_bal_service *s)
{
    return s->drain_limit_ns ? s->drain_limit_ns : gw_bal_drain_default(s->protocol);
}

uint64_t gw_bal_drain_limit(const struct gw_bal_worker *w)
{
    return w->drain_limit_ns ? w->drain_limit_ns : gw_bal_drain_limit_of(w->service);
}

static int set_over(struct gw_bal_model *m, struct gw_bal_worker *w, int over)
{
    if (w->drain_over == over) return 0;
    w->drain_over = (uint8_t)over;
    w->changed = ++m->version;
    w->idle = 0;
    return 1;
}

/* The end counts from the first look at the drain. */
static bool drain_is_over(struct gw_bal_worker *w, uint64_t now_ns)
{
    uint64_t limit = gw_bal_drain_limit(w);
    if (limit == GW_BAL_DRAIN_ALWAYS) {
        w->drain_end_ns = 0;
        return false;
    }
    if (!w->drain_end_ns) w->drain_end_ns = now_ns + limit;
    return now_ns >= w->drain_end_ns;
}

bool gw_bal_tend_drain(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t now_ns)
{
    if (w->drain || w->leave) return set_over(m, w, drain_is_over(w, now_ns));
    w->drain_limit_ns = w->drain_end_ns = 0;
    return set_over(m, w, 0);
}

void gw_bal_limit_drain(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t limit_ns, uint64_t now_ns)
{
    w->drain_limit_ns = limit_ns;
    w->drain_end_ns = 0;
    set_over(m, w, drain_is_over(w, now_ns));
}
