/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker has which row: Maglev (NSDI'16), with weights, and rendezvous. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/balance/balance.h"

static uint64_t scramble(uint64_t v)
{
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

static void no_rows(uint16_t row[BAL_MAGLEV])
{
    for (uint32_t i = 0; i < BAL_MAGLEV; i++) row[i] = BAL_NO_WORKER;
}

struct turn {
    uint32_t at, skip;
    uint64_t credit;
};

/* Each candidate wants the rows in an order of its own. They take turns, as often as their weights say. */
int bal_maglev(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t row[BAL_MAGLEV])
{
    uint32_t most = 0, filled = 0;
    struct turn *turn = calloc(n + !n, sizeof(*turn));
    if (!turn) return -ENOMEM;
    no_rows(row);
    for (uint32_t i = 0; i < n; i++) {
        turn[i].at = (uint32_t)(scramble(c[i].name ^ seed) % BAL_MAGLEV);
        turn[i].skip = (uint32_t)(scramble(c[i].name + seed + 1) % (BAL_MAGLEV - 1)) + 1;
        if (c[i].weight > most) most = c[i].weight;
    }
    while (most && filled < BAL_MAGLEV)
        for (uint32_t i = 0; i < n && filled < BAL_MAGLEV; i++) {
            struct turn *t = &turn[i];
            t->credit += c[i].weight;
            if (t->credit < most) continue;
            t->credit -= most;
            while (row[t->at] != BAL_NO_WORKER) t->at = (t->at + t->skip) % BAL_MAGLEV;
            row[t->at] = c[i].worker;
            filled++;
        }
    free(turn);
    return 0;
}

void bal_rendezvous(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t row[BAL_MAGLEV])
{
    no_rows(row);
    for (uint32_t r = 0; r < BAL_MAGLEV; r++) {
        double best = INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            if (!c[i].weight) continue;
            /* An exponential variable whose rate is the weight: the smallest is each one's as often as that.
             */
            uint64_t h = scramble(scramble(c[i].name ^ seed) + r);
            double u = ((double)(h >> 11) + 0.5) * 0x1p-53, score = -log(u) / c[i].weight;
            if (score >= best) continue;
            best = score;
            row[r] = c[i].worker;
        }
    }
}
