/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/services.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "src/balance/balance.h"
#include "src/balance/check.h"
#include "src/balance/persist.h"

#define SECOND UINT64_C(1000000000)

static uint64_t or_else(uint64_t value, uint64_t standard)
{
    return value ? value : standard;
}

void bal_fill_attr(struct bal_attr *a)
{
    struct bal_timeouts *t = &a->timeout;
    a->flows = or_else(a->flows, 1000000);
    a->wide_flows = or_else(a->wide_flows, 100000);
    t->syn = or_else(t->syn, 20 * SECOND);
    t->established = or_else(t->established, 900 * SECOND);
    t->fin_wait = or_else(t->fin_wait, 120 * SECOND);
    t->close = or_else(t->close, 10 * SECOND);
    t->udp = or_else(t->udp, 30 * SECOND);
    t->udp_stream = or_else(t->udp_stream, 180 * SECOND);
    t->queue_pair = or_else(t->queue_pair, 900 * SECOND);
    t->fragment = or_else(t->fragment, 5 * SECOND);
}

static struct gw_flow_attr table_attr(const struct bal_attr *a, bool wide)
{
    const struct bal_timeouts *t = &a->timeout;
    return (struct gw_flow_attr){
        .flows = wide ? a->wide_flows : a->flows,
        .key_bytes = wide ? GW_FLOW_KEY_MAX : 8,
        .flags = a->huge_pages ? GW_FLOW_HUGE_PAGES : 0,
        .evictable = BAL_EVICTABLE | GW_FLOW_IDLE(BAL_EVICTABLE_IDLE),
        .timeout_ns = {[BAL_SYN_SENT] = t->syn,
                       [BAL_UNPROVEN] = t->established,
                       [BAL_SYN_RECV] = t->syn,
                       [BAL_ESTABLISHED] = t->established,
                       [BAL_FIN_WAIT] = t->fin_wait,
                       [BAL_CLOSE_WAIT] = t->fin_wait,
                       [BAL_LAST_ACK] = t->fin_wait,
                       [BAL_TIME_WAIT] = t->fin_wait,
                       [BAL_CLOSE] = t->close,
                       [BAL_LOOSE] = t->syn,
                       [BAL_UDP_NEW] = t->udp,
                       [BAL_UDP_STREAM] = t->udp_stream,
                       [BAL_ROCE_OPENING] = t->queue_pair,
                       [BAL_ROCE_LIVE] = t->queue_pair,
                       [BAL_ROCE_CLOSING] = t->close,
                       [BAL_FRAGMENT] = t->fragment},
    };
}

static void core_free(struct bal_core *c)
{
    if (!c) return;
    gw_flow_destroy(c->narrow);
    gw_flow_destroy(c->wide);
    free(c->counters);
    free(c->feed);
    free(c->inbox);
    bal_clients_free(c->clients);
    free(c);
}

static int core_new(struct bal *bal, uint32_t index)
{
    struct bal_core *c = calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    bal->core[index] = c;
    c->bal = bal;
    c->index = index;
    c->choice.random = (bal->seed[0] + 0x9e3779b97f4a7c15u * (index + 1)) | 1;
    c->counters = calloc(1, sizeof(*c->counters));
    c->feed = calloc(1, sizeof(*c->feed));
    c->inbox = calloc(1, sizeof(*c->inbox));
    c->clients = bal_clients_new();
    if (!c->counters || !c->feed || !c->inbox || !c->clients) return -ENOMEM;
    struct gw_flow_attr narrow = table_attr(&bal->attr, false), wide = table_attr(&bal->attr, true);
    int error = gw_flow_create(&narrow, &c->narrow);
    if (!error) error = gw_flow_create(&wide, &c->wide);
    if (error) return error;
    c->count[0] = gw_flow_worker_counts(c->narrow);
    c->count[1] = gw_flow_worker_counts(c->wide);
    return 0;
}

int bal_create(const struct bal_attr *attr, struct bal **out)
{
    char why[BAL_WHY];
    *out = NULL;
    if (bal_check_attr(attr, why)) return -EINVAL;
    struct bal *bal = calloc(1, sizeof(*bal));
    if (!bal) return -ENOMEM;
    bal->attr = *attr;
    bal_fill_attr(&bal->attr);
    int error = getrandom(bal->seed, sizeof(bal->seed), 0) == sizeof(bal->seed) ? 0 : -EIO;
    bal->neighbours = bal_neighbours_new(bal->seed);
    if (!bal->neighbours) error = -ENOMEM;
    for (uint32_t i = 0; i < BAL_CORES; i++) atomic_init(&bal->seen[i], BAL_OFFLINE);
    for (uint32_t i = 0; i < BAL_PORTS; i++) atomic_init(&bal->any_mac[i], true); /* until the MAC is known */
    for (uint32_t i = 0; i < attr->cores && !error; i++) error = core_new(bal, i);
    struct bal_config *none = calloc(1, sizeof(*none));
    if (!error) error = none ? bal_publish(bal, none, why, sizeof(why)) : -ENOMEM;
    free(none);
    if (error) {
        bal_destroy(bal);
        return error;
    }
    *out = bal;
    return 0;
}

void bal_destroy(struct bal *bal)
{
    if (!bal) return;
    for (uint32_t i = 0; i < BAL_CORES; i++) core_free(bal->core[i]);
    while (bal->old) {
        struct bal_snapshot *s = bal->old;
        bal->old = s->older;
        bal_snapshot_free(s);
    }
    bal_snapshot_free(atomic_load(&bal->snap));
    bal_neighbours_free(bal->neighbours);
    free(bal);
}

/* ---- publications ---- */

uint64_t bal_generation(const struct bal *bal)
{
    return bal->generation;
}

uint64_t bal_generation_seen(const struct bal *bal)
{
    uint64_t least = bal->generation;
    for (uint32_t i = 0; i < bal->attr.cores; i++) {
        /* seq_cst, with bal_core_begin: a core that is seen offline here will load the newest snapshot */
        uint64_t seen = atomic_load(&bal->seen[i]);
        if (seen < least) least = seen;
    }
    return least;
}

static void reclaim(struct bal *bal)
{
    uint64_t seen = bal_generation_seen(bal);
    struct bal_snapshot **at = &bal->old;
    while (*at) {
        struct bal_snapshot *s = *at;
        if (s->generation >= seen) {
            at = &s->older;
            continue;
        }
        *at = s->older;
        bal_snapshot_free(s);
    }
}

int bal_publish(struct bal *bal, const struct bal_config *config, char *error, size_t size)
{
    struct bal_snapshot *s, *last = atomic_load(&bal->snap);
    int rc = bal_snapshot_make(bal, config, last, &s, error, size);
    if (rc) return rc;
    s->generation = ++bal->generation;
    atomic_store(&bal->snap, s); /* release: it is whole before anyone sees it */
    if (last) {
        last->older = bal->old;
        bal->old = last;
    }
    reclaim(bal);
    return 0;
}

struct bal_core *bal_core_begin(struct bal *bal, uint32_t index)
{
    if (index >= bal->attr.cores) return NULL;
    struct bal_core *c = bal->core[index];
    atomic_store(&bal->seen[index], 0); /* before the load: nothing that it finds is freed from now on */
    c->snap = atomic_load(&bal->snap);
    atomic_store(&bal->seen[index], c->snap->generation);
    return c;
}

void bal_core_look(struct bal_core *core, uint64_t now_ns)
{
    core->now_ns = now_ns;
    gw_flow_clock(core->narrow, now_ns);
    gw_flow_clock(core->wide, now_ns);
    /* acquire: the snapshot is seen whole. release: reads of the last one come before it is given back. */
    const struct bal_snapshot *next = atomic_load_explicit(&core->bal->snap, memory_order_acquire);
    if (next != core->snap) bal_purge(core, next);
    core->snap = next;
    if (atomic_load_explicit(&core->bal->seen[core->index], memory_order_relaxed) != core->snap->generation)
        atomic_store_explicit(&core->bal->seen[core->index], core->snap->generation, memory_order_release);
}

void bal_core_end(struct bal_core *c)
{
    c->snap = NULL;
    /* release: its last reads of a snapshot come before */
    atomic_store(&c->bal->seen[c->index], BAL_OFFLINE);
}

void bal_stop(struct bal *bal)
{
    atomic_store_explicit(&bal->stop, true, memory_order_relaxed);
}

void bal_set_port_mac(struct bal *bal, uint32_t port, const uint8_t mac[6], bool any)
{
    uint64_t v = 0;
    memcpy(&v, mac, 6);
    if (port >= BAL_PORTS) return;
    atomic_store_explicit(&bal->any_mac[port], any, memory_order_relaxed);
    atomic_store_explicit(&bal->port_mac[port], v, memory_order_relaxed);
}

/* ---- telemetry ---- */

void bal_telemetry(struct bal *bal, uint32_t worker, const struct bal_load *load, uint64_t now_ns)
{
    if (worker >= BAL_WORKERS) return;
    /* relaxed: a reader that mixes two reports chooses no worse than by either of them */
    atomic_store_explicit(&bal->load[worker].queue_depth, load->queue_depth, memory_order_relaxed);
    atomic_store_explicit(&bal->load[worker].bytes, load->bytes, memory_order_relaxed);
    atomic_store_explicit(&bal->load[worker].when_ns, now_ns, memory_order_relaxed);
}

/* ---- counters ---- */

const char *bal_drop_name(enum bal_drop why)
{
    static const char *const name[BAL_DROPS] = {
        [BAL_DROP_BAD] = "bad",
        [BAL_DROP_OTHER_HOST] = "other_host",
        [BAL_DROP_NOT_OURS] = "not_ours",
        [BAL_DROP_NO_WORKER] = "no_worker",
        [BAL_DROP_NO_NEIGHBOUR] = "no_neighbour",
        [BAL_DROP_TOO_BIG] = "too_big",
        [BAL_DROP_TTL] = "ttl",
        [BAL_DROP_INVALID] = "invalid",
        [BAL_DROP_QP] = "queue_pair",
        [BAL_DROP_FRAGMENT] = "fragment",
        [BAL_DROP_NO_ROOM] = "no_room",
    };
    return why < BAL_DROPS ? name[why] : "unknown";
}

static uint64_t read_count(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void add_totals(const struct bal_counters *c, struct bal_totals *out)
{
    out->received += read_count(&c->received);
    out->received_bytes += read_count(&c->received_bytes);
    out->packets += read_count(&c->packets);
    out->bytes += read_count(&c->bytes);
    out->answered += read_count(&c->answered);
    out->opened += read_count(&c->opened);
    out->expired += read_count(&c->expired);
    out->evicted += read_count(&c->evicted);
    out->moved += read_count(&c->moved);
    out->stateless += read_count(&c->stateless);
    out->live += read_count(&c->live);
    for (int i = 0; i < BAL_DROPS; i++) out->drop[i] += read_count(&c->drop[i]);
}

static uint64_t time_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

void bal_totals(const struct bal *bal, int core, struct bal_totals *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < bal->attr.cores; i++)
        if (core < 0 || (uint32_t)core == i) add_totals(bal->core[i]->counters, out);
    struct bal_neighbour_counts n;
    bal_neighbours_count(bal->neighbours, time_now(), &n);
    out->neighbours = n.known;
    out->displaced = n.displaced;
}

void bal_worker_counts(const struct bal *bal, uint32_t worker, struct bal_counts *out)
{
    memset(out, 0, sizeof(*out));
    if (worker >= BAL_WORKERS) return;
    for (uint32_t i = 0; i < bal->attr.cores; i++) {
        const struct bal_counters *c = bal->core[i]->counters;
        out->packets += read_count(&c->worker[worker].packets);
        out->bytes += read_count(&c->worker[worker].bytes);
        out->opened += read_count(&c->worker[worker].opened);
        out->live += read_count(&c->worker[worker].live);
        out->held += read_count(&c->worker[worker].held);
        out->clients += read_count(&c->worker[worker].clients);
    }
}

uint64_t bal_worker_live(const struct bal *bal, uint32_t worker)
{
    struct bal_counts c;
    bal_worker_counts(bal, worker, &c);
    return c.live + c.held;
}
