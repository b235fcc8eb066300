/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: how long batches take, and how large they should be. */
#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/plan.h"

int64_t fleet_exec(const struct fleet_model *m, uint32_t n)
{
    GW_ASSERT(n >= 1 && n <= FLEET_MAX_BATCH);
    int i = 31 - __builtin_clz(n);
    uint32_t base = 1U << i;
    if (n == base) return m->exec_ns[i];
    return m->exec_ns[i] + (m->exec_ns[i + 1] - m->exec_ns[i]) * (int64_t)(n - base) / (int64_t)base;
}

uint32_t fleet_batch_within(const struct fleet_model *m, int64_t limit_ns)
{
    int i = FLEET_SIZES - 1;
    while (i >= 0 && m->exec_ns[i] > limit_ns) i--;
    if (i < 0 || i == FLEET_SIZES - 1) return i < 0 ? 0 : FLEET_MAX_BATCH;
    uint32_t n = 1U << i;
    int64_t step =
        m->exec_ns[i + 1] - m->exec_ns[i]; /* for n more; not 0, because the larger size takes too long */
    n += (uint32_t)((limit_ns - m->exec_ns[i]) * n / step);
    while (n < FLEET_MAX_BATCH && fleet_exec(m, n + 1) <= limit_ns) n++; /* fleet_exec() rounds down */
    return n;
}

uint32_t fleet_batch_for(const struct fleet_model *m, int64_t deadline_ns)
{
    uint32_t most = fleet_batch_within(m, deadline_ns / 2), best = 1;
    int64_t took = m->exec_ns[0];
    /* Between measured sizes time grows linearly, so that the best batch is one of them, or the largest. */
    for (uint32_t n = 2; n < most; n *= 2) {
        int64_t more = m->exec_ns[31 - __builtin_clz(n)];
        if (more * (int64_t)best <= took * (int64_t)n) best = n, took = more;
    }
    return most > 1 && fleet_exec(m, most) * (int64_t)best <= took * (int64_t)most ? most : best;
}
