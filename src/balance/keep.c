/* SPDX-License-Identifier: Apache-2.0 */
/* A core's work between bursts: it frees flows, counts, resolves next hops, announces VIPs, and exchanges
 * records. */
#include "src/balance/keep.h"

#include <gpuwire/detail/assert.h>

#include "src/balance/core.h"
#include "src/balance/feed.h"
#include "src/balance/link.h"
#include "src/balance/persist.h"

#define KEEP_NS UINT64_C(100000000)

static void keep_counts(struct bal_core *core)
{
    uint64_t all = 0, beside = 0;
    for (uint16_t w = 0; w < BAL_WORKERS; w++) {
        uint64_t live = (uint64_t)core->count[0][w] + core->count[1][w];
        uint64_t held = core->count[1][bal_beside(w)];
        all += live;
        beside += held;
        atomic_store_explicit(&core->counters->worker[w].live, live, memory_order_relaxed);
        atomic_store_explicit(&core->counters->worker[w].held, held, memory_order_relaxed);
        core->choice.bytes[w] /= 2; /* without telemetry: what went there of late */
    }
    GW_ASSERT(all + beside == gw_flow_count(core->narrow) + gw_flow_count(core->wide));
    atomic_store_explicit(&core->counters->live, all, memory_order_relaxed);
}

static void keep_resolving(struct bal_core *core)
{
    for (uint32_t w = 0; w < BAL_WORKERS; w++)
        if (core->snap->config.worker[w].used) bal_ask(core, core->snap->neighbour[w]);
    for (uint32_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) bal_ask(core, core->snap->gateway[i][k]);
}

/* After each publication the links hear where the VIPs are: another balancer may have had them before. A
 * publication in the middle of a round does not begin it again: the last VIPs would never have their turn. */
static void keep_announcing(struct bal_core *core)
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
        struct bal_frame *f = bal_new_frame(core, (uint8_t)port);
        f->len = bal_answer_frame(f->data, &link, NULL, NULL);
    }
}

void bal_core_keep(struct bal_core *core, uint64_t now_ns)
{
    size_t freed;
    bal_core_look(core, now_ns);
    freed = gw_flow_expire(core->narrow, 0) + gw_flow_expire(core->wide, 0);
    if (freed) bal_count(&core->counters->expired, freed);
    bal_feed_learn(core);
    bal_feed_round(core);
    if (core->kept_ns && now_ns - core->kept_ns < KEEP_NS) return;
    core->kept_ns = now_ns;
    keep_counts(core);
    bal_clients_keep(core);
    if (core->index) return;
    keep_resolving(core);
    keep_announcing(core);
}
