/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_expect.c: when a request that comes now can have been served. */
#include "src/fleet/worker/emulated_impl.h"

static uint32_t expect_rows_before(const struct emulated_place *p, uint64_t rank)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < p->n; i++) rows += p->heap[i].rank <= rank ? p->heap[i].call->request.rows : 0;
    return rows;
}

/* The time of `rows` rows in batches of at most `most`. */
static int64_t expect_time(const struct emulated *e, uint32_t rows, uint32_t most)
{
    const struct fleet_profile *f = &e->o.zoo->profile;
    int64_t took = (int64_t)(rows / most) * fleet_profile_exec(f, most);
    return rows % most ? took + fleet_profile_exec(f, rows % most) : took;
}

static int64_t expect_free_at(const struct emulated *e)
{
    int64_t now = fleet_loop_now(e->o.loop);
    return e->running && e->ends_at > now ? e->ends_at : now;
}

int64_t emulated_estimate(const struct emulated *e, const struct emulated_place *p,
                          const struct fleet_call *c, int64_t deadline_at)
{
    uint64_t rank = emulated_rank(&c->request, deadline_at);
    int64_t at = expect_free_at(e);
    for (uint32_t i = 0; i < e->nbusy; i++) {
        if (e->busy[i] == p || e->busy[i]->heap[0].rank > rank) continue;
        at += expect_time(e, expect_rows_before(e->busy[i], rank), emulated_most(e->busy[i]));
    }
    return at + expect_time(e, expect_rows_before(p, rank) + c->request.rows, emulated_most(p));
}
