/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker has which row: Maglev (NSDI'16), with weights, and rendezvous. */
#include "src/balance/maglev.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/balance/objects.h"

static uint64_t scramble(uint64_t v)
{
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

static void no_rows(uint16_t *row, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) row[i] = BAL_NO_WORKER;
}

/* ---- Maglev ---- */

struct turn {
    uint32_t at, skip, candidate;
    uint64_t round, turns; /* the round of its next turn, and how many it has had */
};

static bool turn_before(const struct turn *a, const struct turn *b)
{
    return a->round != b->round ? a->round < b->round : a->candidate < b->candidate;
}

/* A heap: the next turn is in front. */
static void turn_sink(struct turn *heap, uint32_t n, uint32_t i)
{
    struct turn t = heap[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && turn_before(&heap[child + 1], &heap[child]);
        if (turn_before(&t, &heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = t;
}

/* A weight of half the largest has its turn in every second round. */
static void turn_next(struct turn *t, uint32_t weight, uint32_t most)
{
    t->turns++;
    t->round = (t->turns * most + weight - 1) / weight;
}

/* Each candidate wants the rows in an order of its own. They take turns, as often as their weights say. */
int bal_maglev(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t *row, uint32_t rows)
{
    uint32_t most = 0, turns = 0;
    struct turn *turn = calloc(n + !n, sizeof(*turn));
    if (!turn) return -ENOMEM;
    no_rows(row, rows);
    for (uint32_t i = 0; i < n; i++)
        if (c[i].weight > most) most = c[i].weight;
    for (uint32_t i = 0; i < n; i++) {
        if (!c[i].weight) continue;
        turn[turns] =
            (struct turn){.at = (uint32_t)(scramble(c[i].name ^ seed) % rows),
                          .skip = rows > 1 ? (uint32_t)(scramble(c[i].name + seed + 1) % (rows - 1)) + 1 : 0,
                          .candidate = i};
        turn_next(&turn[turns++], c[i].weight, most);
    }
    for (uint32_t i = turns / 2; i-- > 0;) turn_sink(turn, turns, i);
    for (uint32_t filled = 0; turns && filled < rows; filled++) {
        struct turn *t = &turn[0];
        while (row[t->at] != BAL_NO_WORKER) t->at = (t->at + t->skip) % rows;
        row[t->at] = c[t->candidate].worker;
        turn_next(t, c[t->candidate].weight, most);
        turn_sink(turn, turns, 0);
    }
    free(turn);
    return 0;
}

/* ---- rendezvous ---- */

struct first { /* of the candidates at one row: who has the smallest score */
    double score;
    uint16_t worker;
};

/* An exponential variable whose rate is the weight: the smallest is each one's as often as that. `part` is
 * less than 1, and never more than the variable. */
static double score_of(double part, uint32_t weight)
{
    return -log1p(-part) / weight;
}

static inline void be_first(struct first *f, double score, uint16_t worker)
{
    if (score < f->score) *f = (struct first){score, worker};
}

void bal_rendezvous(const struct bal_candidate *c, uint32_t n, uint64_t seed, const struct bal_rows *rows)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const uint64_t of_row = scramble(r + seed);
        struct first up = {INFINITY, BAL_NO_WORKER}, all = up;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t h = (c[i].name ^ of_row) * 0xd6e8feb86659fd93u;
            h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
            double part = ((double)(h >> 11) + 0.5) * 0x1p-53;
            /* Nearly all end here, without a logarithm. */
            if (part >= (c[i].up ? up : all).score * c[i].weight || !c[i].weight) continue;
            double score = score_of(part, c[i].weight);
            be_first(&all, score, c[i].worker);
            if (c[i].up) be_first(&up, score, c[i].worker);
        }
        rows->up[r] = up.worker;
        if (rows->all) rows->all[r] = all.worker;
    }
}
