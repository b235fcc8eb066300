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
    uint64_t when;  /* it takes its next row in this round; each round offers each candidate one row */
    uint64_t taken; /* rows */
    uint32_t at, skip;
    uint32_t candidate;
};

static int is_before(const struct turn *a, const struct turn *b)
{
    return a->when != b->when ? a->when < b->when : a->candidate < b->candidate;
}

static int by_turn(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : 1;
}

/* The first turn of a heap has moved to a later round. */
static void sink(struct turn *heap, uint32_t n)
{
    struct turn moved = heap[0];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &moved)) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Each candidate wants the rows in an order of its own. They take turns, as often as their weights say: the
 * heaviest in every round. The heap goes from one turn to the next, past the rounds in which light candidates
 * take nothing. */
int bal_maglev(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t row[BAL_MAGLEV])
{
    uint32_t most = 0, turns = 0;
    struct turn *turn = calloc(n + !n, sizeof(*turn));
    if (!turn) return -ENOMEM;
    no_rows(row);
    for (uint32_t i = 0; i < n; i++)
        if (c[i].weight > most) most = c[i].weight;
    for (uint32_t i = 0; i < n; i++) {
        if (!c[i].weight) continue;
        turn[turns++] = (struct turn){
            .when = (most + c[i].weight - 1) / c[i].weight,
            .at = (uint32_t)(scramble(c[i].name ^ seed) % BAL_MAGLEV),
            .skip = (uint32_t)(scramble(c[i].name + seed + 1) % (BAL_MAGLEV - 1)) + 1,
            .candidate = i,
        };
    }
    qsort(turn, turns, sizeof(*turn), by_turn); /* what is sorted is a heap */
    for (uint32_t filled = 0; turns && filled < BAL_MAGLEV; filled++) {
        struct turn *t = &turn[0];
        uint64_t weight = c[t->candidate].weight;
        while (row[t->at] != BAL_NO_WORKER) t->at = (t->at + t->skip) % BAL_MAGLEV;
        row[t->at] = c[t->candidate].worker;
        t->when = ((++t->taken + 1) * most + weight - 1) / weight;
        sink(turn, turns);
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
