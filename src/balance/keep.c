/* SPDX-License-Identifier: Apache-2.0 */
/* What a core does between bursts: it frees flows, counts, resolves next hops, announces VIPs, and exchanges
 * records. */
#include <errno.h>
#include <string.h>

#include "src/balance/forward.h"
#include "src/balance/persist.h"
#include "src/balance/step.h"

#define KEEP_NS  UINT64_C(100000000)
#define SLICE_NS UINT64_C(1000000)
#define ROUND_NS UINT64_C(5000000000) /* in which the feed tells every flow once */

/* ---- rings: one writer, one reader ---- */

static bool push(struct bal_ring *r, const struct bal_record *record)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    /* acquire: the reader is done with the place before it is written again */
    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) == BAL_RING) return false;
    r->record[tail % BAL_RING] = *record;
    /* release: the record is written before it is seen */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

static size_t pop(struct bal_ring *r, struct bal_record *out, size_t n)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    /* acquire, release: as in push, the other way round */
    uint32_t there = atomic_load_explicit(&r->tail, memory_order_acquire) - head;
    if (n > there) n = there;
    for (size_t i = 0; i < n; i++) out[i] = r->record[(head + i) % BAL_RING];
    atomic_store_explicit(&r->head, head + (uint32_t)n, memory_order_release);
    return n;
}

static bool has_room(const struct bal_ring *r, uint32_t n)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    return tail - atomic_load_explicit(&r->head, memory_order_acquire) <= BAL_RING - n;
}

/* ---- records ---- */

void bal_feed(struct bal *bal, bool on)
{
    atomic_store_explicit(&bal->feeding, on, memory_order_relaxed);
}

size_t bal_feed_take(struct bal *bal, uint32_t core, struct bal_record *out, size_t n)
{
    return core < bal->attr.cores ? pop(bal->core[core]->feed, out, n) : 0;
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
        if (!has_room(bal->core[i]->inbox, 1)) return -EAGAIN;
    for (uint32_t i = 0; i < bal->attr.cores; i++) push(bal->core[i]->inbox, record);
    return 0;
}

static bool record_of(const struct bal_core *core, enum bal_where where, const void *key,
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
    if (!record_of(core, where, key, &r)) return;
    r.worker = worker;
    r.state = state == BAL_CLOSE ? BAL_ENDED : state;
    push(core->feed, &r);
}

static void learn(struct bal_core *core, const struct bal_record *r)
{
    const struct bal_service *s = &core->snap->config.service[r->service];
    bool ipv6 = r->client.family == 6, roce = s->proto == BAL_ROCE, narrow = !ipv6 && !roce && s->port;
    if (!s->used || !bal_keeps(core->snap, r->worker, r->service)) return;
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

static void take_inbox(struct bal_core *core)
{
    struct bal_record r[64];
    size_t n = pop(core->inbox, r, 64);
    for (size_t i = 0; i < n; i++) learn(core, &r[i]);
}

struct visit {
    struct bal_core *core;
    enum bal_where where;
};

static void tell_again(void *ctx, const void *key, const struct gw_flow *flow)
{
    struct visit *v = ctx;
    bool worth = flow->state == BAL_ESTABLISHED || flow->state == BAL_UNPROVEN ||
                 flow->state == BAL_UDP_STREAM || flow->state == BAL_ROCE_LIVE ||
                 flow->state == BAL_FIN_WAIT || flow->state == BAL_CLOSE_WAIT;
    if (worth) bal_tell(v->core, v->where, key, flow->worker, flow->state);
}

/* As much of a round as the time since the last slice asks for. A reader that is slow makes the round longer.
 */
static void feed_slice(struct bal_core *core)
{
    uint64_t since_ns = core->now_ns - core->fed_ns;
    if (since_ns < SLICE_NS || !atomic_load_explicit(&core->bal->feeding, memory_order_relaxed)) return;
    if (since_ns > ROUND_NS) since_ns = SLICE_NS;
    if (!has_room(core->feed, BAL_RING / 2)) return;
    core->fed_ns = core->now_ns;
    struct gw_flow_table *table[2] = {core->narrow, core->wide};
    for (int i = 0; i < 2; i++) {
        struct visit v = {core, i ? BAL_WIDE : BAL_NARROW};
        uint64_t buckets = gw_flow_bytes(table[i]) / 64;
        size_t slice = (size_t)((double)buckets * (double)since_ns / (double)ROUND_NS) + 1;
        if (!gw_flow_scan(table[i], &core->scan_at[i], slice, tell_again, &v)) core->scan_at[i] = 0;
    }
}

/* ---- the rest ---- */

static void count_live(struct bal_core *core)
{
    uint64_t all = 0;
    for (uint16_t w = 0; w < BAL_WORKERS; w++) {
        uint64_t live = (uint64_t)core->count[0][w] + core->count[1][w];
        uint64_t held = core->count[1][bal_beside(w)];
        all += live;
        atomic_store_explicit(&core->counters->worker[w].live, live, memory_order_relaxed);
        atomic_store_explicit(&core->counters->worker[w].held, held, memory_order_relaxed);
        core->choice.bytes[w] /= 2; /* without telemetry: what went there of late */
    }
    atomic_store_explicit(&core->counters->live, all, memory_order_relaxed);
}

static void resolve(struct bal_core *core)
{
    for (uint32_t w = 0; w < BAL_WORKERS; w++)
        if (core->snap->config.worker[w].used) bal_ask(core, core->snap->neighbour[w]);
    for (uint32_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) bal_ask(core, core->snap->gateway[i][k]);
}

/* After each publication the links hear where the VIPs are: another balancer may have had them before. A
 * publication in the middle of a round does not begin it again: the last VIPs would never have their turn. */
static void announce(struct bal_core *core)
{
    const struct bal_snapshot *s = core->snap;
    if (s->config.mute) return;
    if (core->announced != s->generation) {
        core->announced = s->generation;
        core->announce_left = (uint64_t)BAL_SERVICES * BAL_PORTS;
    }
    for (; core->announce_left; core->announce_left--, core->announce_at++) {
        if (core->announce_at == (uint64_t)BAL_SERVICES * BAL_PORTS) core->announce_at = 0;
        uint32_t service = (uint32_t)(core->announce_at / BAL_PORTS),
                 port = (uint32_t)(core->announce_at % BAL_PORTS);
        if (!s->config.service[service].used || !s->config.port[port].used) continue;
        if (core->outbox_used > BAL_OUTBOX / 2) return; /* the rest next time */
        uint8_t mac[6];
        bal_port_mac(core->bal, port, mac);
        struct bal_link link = {s->config.port[port].vlan, mac, s->config.service[service].vip};
        struct bal_frame *f = &core->outbox[core->outbox_used++];
        f->port = (uint8_t)port;
        f->len = bal_answer_frame(f->data, &link, NULL, NULL);
    }
}

void bal_core_keep(struct bal_core *core, uint64_t now_ns)
{
    size_t freed;
    bal_core_look(core, now_ns);
    freed = gw_flow_expire(core->narrow, 0) + gw_flow_expire(core->wide, 0);
    if (freed) bal_count(&core->counters->expired, freed);
    take_inbox(core);
    feed_slice(core);
    if (core->kept_ns && now_ns - core->kept_ns < KEEP_NS) return;
    core->kept_ns = now_ns;
    count_live(core);
    bal_clients_keep(core);
    if (core->index) return;
    resolve(core);
    announce(core);
}
