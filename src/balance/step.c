/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of every path of a packet: how it ends here, and frames of the balancer's own that wait. */
#include "src/balance/step.h"

#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/trace/trace.h"

void bal_drop(struct bal_core *core, struct bal_work *w, enum bal_drop why)
{
    GW_TRACE(balance, dropped, why, w->p->data, w->p->len, w->p->port);
    w->p->verdict = BAL_DISCARD;
    w->where = BAL_NOWHERE;
    bal_count(&core->counters->drop[why], 1);
}

void bal_pass(struct bal_work *w, uint32_t core)
{
    GW_ASSERT(core < BAL_CORES);
    w->p->verdict = BAL_PASS;
    w->p->core = (uint8_t)core;
    w->p->hops++;
    w->where = BAL_NOWHERE;
}

uint32_t bal_owner(const struct bal_core *core, const uint8_t *client, bool ipv6, uint16_t port)
{
    const uint64_t *seed = core->bal->seed;
    uint64_t a[2] = {0}, h;
    memcpy(a, client, ipv6 ? 16 : 4);
    h = bal_mix(a[0] ^ seed[0], seed[1] | 1);
    h = bal_mix(h ^ a[1] ^ (uint64_t)port << 48, seed[0] | 1);
    return (uint32_t)((h >> 32) * core->bal->attr.cores >> 32);
}

bool bal_is_crowded(const struct bal_core *core, const struct bal_work *w)
{
    const struct bal_attr *a = &core->bal->attr;
    uint64_t room = w->where == BAL_NARROW ? a->flows : a->wide_flows;
    return gw_flow_count(bal_table_of(core, w)) > room - room / 8;
}

void bal_mark_all_changed(struct bal_core *core)
{
    core->burst.any_changed = true;
    memset(core->burst.changed, 0xff, sizeof(core->burst.changed));
}

struct bal_frame *bal_new_frame(struct bal_core *core, uint8_t port)
{
    GW_ASSERT(core->outbox_used <= BAL_OUTBOX);
    if (core->outbox_used == BAL_OUTBOX) return NULL;
    struct bal_frame *f = &core->outbox[core->outbox_used++];
    f->port = port;
    return f;
}

size_t bal_core_frames(struct bal_core *core, struct bal_frame *out, size_t n)
{
    if (n > core->outbox_used) n = core->outbox_used;
    core->outbox_used -= (uint32_t)n;
    memcpy(out, core->outbox, n * sizeof(*out));
    memmove(core->outbox, core->outbox + n, core->outbox_used * sizeof(*out));
    return n;
}
