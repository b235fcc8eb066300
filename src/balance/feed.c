/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of flows: a core tells a standby of its own, and learns those of another balancer. Two rings lie
 * between a core and the control plane.
 */
#include "src/balance/feed.h"

#include <errno.h>
#include <string.h>

#include "src/balance/persist.h"
#include "src/trace/trace.h"

#define SLICE_NS UINT64_C(1000000)
#define ROUND_NS UINT64_C(5000000000) /* in which the feed tells every flow once */

void bal_feed(struct bal *bal, bool on)
{
    atomic_store_explicit(&bal->feeding, on, memory_order_relaxed);
}

size_t bal_feed_take(struct bal *bal, uint32_t core, struct bal_record *out, size_t n)
{
    return core < bal->attr.cores ? bal_ring_pop(bal->core[core]->feed, out, n) : 0;
}

int bal_learn(struct bal *bal, const struct bal_record *record)
{
    const struct bal_snapshot *s = atomic_load(&bal->snap);
    if (record->service >= BAL_SERVICES || !s->config.service[record->service].used ||
        record->worker >= BAL_WORKERS || s->config.worker[record->worker].service != record->service ||
        !s->config.worker[record->worker].used ||
        record->client.family != s->config.service[record->service].vip.family ||
        (record->state >= GW_FLOW_STATES && record->state != BAL_ENDED))
        return -EINVAL;
    for (uint32_t i = 0; i < bal->attr.cores; i++)
        if (!bal_ring_has_room(bal->core[i]->inbox, 1)) return -EAGAIN;
    for (uint32_t i = 0; i < bal->attr.cores; i++) bal_ring_push(bal->core[i]->inbox, record);
    return 0;
}

static bool feed_record(const struct bal_core *core, enum bal_where where, const void *key,
                        struct bal_record *r)
{
    memset(r, 0, sizeof(*r));
    if (where == BAL_NARROW) {
        uint64_t k;
        memcpy(&k, key, 8);
        uint32_t a = (uint32_t)(k >> 32);
        memcpy(r->client.byte, &a, 4);
        r->client.family = 4;
        r->client_port = (uint16_t)(k >> 16);
        r->service = (uint16_t)k;
        return true;
    }
    struct bal_wide k;
    memcpy(&k, key, sizeof(k));
    if (k.kind != BAL_W_FLOW && k.kind != BAL_W_QP) return false;
    r->service = k.service;
    r->client.family = core->snap->config.service[k.service].vip.family;
    memcpy(r->client.byte, k.client, 16);
    r->client_port = k.kind == BAL_W_FLOW ? (uint16_t)(k.x >> 16) : 0;
    r->vip_port = k.kind == BAL_W_FLOW ? (uint16_t)k.x : 0;
    r->qpn = k.kind == BAL_W_QP ? k.x : 0;
    return true;
}

void bal_tell(struct bal_core *core, enum bal_where where, const void *key, uint16_t worker, uint8_t state)
{
    struct bal_record r;
    if (!atomic_load_explicit(&core->bal->feeding, memory_order_relaxed)) return;
    GW_TRACE(balance, told, key, where, worker, state);
    if (!feed_record(core, where, key, &r)) return;
    r.worker = worker;
    r.state = state == BAL_CLOSE ? BAL_ENDED : state;
    bal_ring_push(core->feed, &r);
}

static void feed_learn(struct bal_core *core, const struct bal_record *r)
{
    const struct bal_service *s = &core->snap->config.service[r->service];
    bool ipv6 = r->client.family == 6, roce = s->proto == BAL_ROCE, narrow = !ipv6 && !roce && s->port;
    if (!s->used || !bal_keeps(core->snap, r->worker, r->service)) return;
    GW_TRACE(balance, learned, r->client.byte, r->client.family, r->client_port, r->service, r->worker,
             r->state);
    uint32_t owner = s->persist_ns ? bal_client_core(core, r->service, r->client.byte, ipv6)
                                   : bal_owner(core, r->client.byte, ipv6, roce ? 0 : r->client_port);
    if ((roce || s->forward == BAL_NAT || s->persist_ns) && owner != core->index) return;
    if (s->persist_ns && r->state != BAL_ENDED && bal_is_up(core->snap, r->worker))
        bal_client_chose(core, r->service, r->client.byte, ipv6, r->worker);
    uint64_t k = bal_narrow_key(r->client.byte, r->client_port, r->service);
    struct bal_wide wide = roce ? bal_wide_key(BAL_W_QP, r->client.byte, ipv6, r->service, r->qpn)
                                : bal_wide_key(BAL_W_FLOW, r->client.byte, ipv6, r->service,
                                               (uint32_t)r->client_port << 16 | (s->port ? 0 : r->vip_port));
    const void *key = narrow ? (const void *)&k : &wide;
    struct gw_flow_table *t = narrow ? core->narrow : core->wide;
    struct gw_flow at;
    bool there = gw_flow_lookup_bulk(t, key, 1, &at) == 1;
    if (r->state == BAL_ENDED) {
        /* Another worker's is not this one's to end. */
        if (!there || at.worker != r->worker) return;
        gw_flow_delete(t, key);
    } else if (there) {
        gw_flow_set_worker(t, at.slot, r->worker);
        gw_flow_set_state(t, at.slot, r->state);
        return;
    } else if (gw_flow_insert(t, key, r->worker, r->state, &at) >= 0) {
        bal_count(&core->counters->opened, 1);
        bal_count(&core->counters->worker[r->worker].opened, 1);
    }
    bal_tell(core, narrow ? BAL_NARROW : BAL_WIDE, key, r->worker, r->state); /* to this one's own standby */
}

void bal_feed_learn(struct bal_core *core)
{
    struct bal_record r[64];
    size_t n = bal_ring_pop(core->inbox, r, 64);
    for (size_t i = 0; i < n; i++) feed_learn(core, &r[i]);
}

struct visit {
    struct bal_core *core;
    enum bal_where where;
};

static void feed_tell_again(void *ctx, const void *key, const struct gw_flow *flow)
{
    struct visit *v = ctx;
    bool worth = flow->state == BAL_ESTABLISHED || flow->state == BAL_UNPROVEN ||
                 flow->state == BAL_UDP_STREAM || flow->state == BAL_ROCE_LIVE ||
                 flow->state == BAL_FIN_WAIT || flow->state == BAL_CLOSE_WAIT;
    if (worth) bal_tell(v->core, v->where, key, flow->worker, flow->state);
}

/* As much of a round as the time since the last slice asks for. A reader that is slow makes the round longer.
 */
void bal_feed_round(struct bal_core *core)
{
    uint64_t since_ns = core->now_ns - core->fed_ns;
    if (since_ns < SLICE_NS || !atomic_load_explicit(&core->bal->feeding, memory_order_relaxed)) return;
    if (since_ns > ROUND_NS) since_ns = SLICE_NS;
    if (!bal_ring_has_room(core->feed, BAL_RING / 2)) return;
    core->fed_ns = core->now_ns;
    struct gw_flow_table *table[2] = {core->narrow, core->wide};
    for (int i = 0; i < 2; i++) {
        struct visit v = {core, i ? BAL_WIDE : BAL_NARROW};
        uint64_t buckets = gw_flow_bytes(table[i]) / 64;
        size_t slice = (size_t)((double)buckets * (double)since_ns / (double)ROUND_NS) + 1;
        if (!gw_flow_scan(table[i], &core->scan_at[i], slice, feed_tell_again, &v)) core->scan_at[i] = 0;
    }
}
