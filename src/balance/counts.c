/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the cores, for those who ask how a balancer is doing. */
#include "src/balance/counts.h"

#include <string.h>
#include <time.h>

#include "src/balance/balance.h"

static uint64_t counts_read(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void counts_add(const struct bal_counters *c, struct bal_totals *out)
{
    out->received += counts_read(&c->received);
    out->received_bytes += counts_read(&c->received_bytes);
    out->packets += counts_read(&c->packets);
    out->bytes += counts_read(&c->bytes);
    out->answered += counts_read(&c->answered);
    out->opened += counts_read(&c->opened);
    out->expired += counts_read(&c->expired);
    out->evicted += counts_read(&c->evicted);
    out->moved += counts_read(&c->moved);
    out->stateless += counts_read(&c->stateless);
    out->live += counts_read(&c->live);
    for (int i = 0; i < BAL_DROPS; i++) out->drop[i] += counts_read(&c->drop[i]);
}

static uint64_t counts_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void bal_totals(const struct bal *bal, int core, struct bal_totals *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < bal->attr.cores; i++)
        if (core < 0 || (uint32_t)core == i) counts_add(bal->core[i]->counters, out);
    struct bal_neighbour_counts n;
    bal_neighbours_count(bal->neighbours, counts_now(), &n);
    out->neighbours = n.known;
    out->displaced = n.displaced;
}

void bal_worker_counts(const struct bal *bal, uint32_t worker, struct bal_counts *out)
{
    memset(out, 0, sizeof(*out));
    if (worker >= BAL_WORKERS) return;
    for (uint32_t i = 0; i < bal->attr.cores; i++) {
        const struct bal_counters *c = bal->core[i]->counters;
        out->packets += counts_read(&c->worker[worker].packets);
        out->bytes += counts_read(&c->worker[worker].bytes);
        out->opened += counts_read(&c->worker[worker].opened);
        out->live += counts_read(&c->worker[worker].live);
        out->held += counts_read(&c->worker[worker].held);
        out->clients += counts_read(&c->worker[worker].clients);
    }
}

uint64_t bal_worker_live(const struct bal *bal, uint32_t worker)
{
    struct bal_counts c;
    bal_worker_counts(bal, worker, &c);
    return c.live + c.held;
}
