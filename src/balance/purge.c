/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's number that is used again: flows that still name the old worker must not come to the new one. */
#include "src/balance/purge.h"

#include <string.h>

enum { SLICE = 16, MOST = SLICE * 8 /* a bucket has fewer flows than 8 */ };

struct purge {
    const uint8_t *stale; /* by worker */
    size_t key_bytes, n;
    uint8_t key[MOST][GW_FLOW_KEY_MAX];
};

static void purge_note(void *ctx, const void *key, const struct gw_flow *flow)
{
    struct purge *p = ctx;
    if (p->stale[bal_worker_of(flow->worker)] && p->n < MOST) memcpy(p->key[p->n++], key, p->key_bytes);
}

static void purge_table(struct gw_flow_table *t, const uint8_t *stale, size_t key_bytes)
{
    struct purge p = {.stale = stale, .key_bytes = key_bytes};
    uint64_t at = 0;
    for (bool more = true; more;) {
        p.n = 0;
        more = gw_flow_scan(t, &at, SLICE, purge_note, &p);
        for (size_t i = 0; i < p.n; i++) gw_flow_delete(t, p.key[i]);
    }
}

static bool purge_is_same(const struct bal_worker *a, const struct bal_worker *b)
{
    return a->used && a->service == b->service && a->port == b->port && bal_same_addr(&a->addr, &b->addr);
}

void bal_purge(struct bal_core *core, const struct bal_snapshot *next)
{
    uint8_t stale[BAL_WORKERS] = {0};
    bool any[2] = {false};
    if (!gw_flow_count(core->narrow) && !gw_flow_count(core->wide)) return;
    for (uint16_t w = 0; w < BAL_WORKERS; w++) {
        if (!next->config.worker[w].used ||
            purge_is_same(&core->snap->config.worker[w], &next->config.worker[w]))
            continue;
        bool narrow = core->count[0][w], wide = core->count[1][w] || core->count[1][bal_beside(w)];
        stale[w] = narrow || wide;
        any[0] |= narrow;
        any[1] |= wide;
    }
    if (any[0]) purge_table(core->narrow, stale, 8);
    if (any[1]) purge_table(core->wide, stale, GW_FLOW_KEY_MAX);
}
