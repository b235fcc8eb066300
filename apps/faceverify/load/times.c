/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of times: 64 cells for each doubling. */
#include "apps/faceverify/load/times.h"

#include <math.h>

static uint32_t times_cell(uint64_t ns)
{
    if (ns < 64) return (uint32_t)ns;
    uint32_t shift = 57 - (uint32_t)__builtin_clzll(ns);
    uint32_t cell = (shift + 1) * 64 + (uint32_t)((ns >> shift) - 64);
    return cell < FACE_TIMES_CELLS ? cell : FACE_TIMES_CELLS - 1;
}

/* The largest time that the cell counts. */
static uint64_t times_top(uint32_t cell)
{
    if (cell < 64) return cell;
    uint32_t shift = cell / 64 - 1;
    return ((uint64_t)(cell % 64 + 64 + 1) << shift) - 1;
}

void face_times_add(struct face_times *t, uint64_t ns)
{
    t->count++;
    if (ns > t->most) t->most = ns;
    t->cell[times_cell(ns)]++;
}

void face_times_merge(struct face_times *to, const struct face_times *from)
{
    to->count += from->count;
    if (from->most > to->most) to->most = from->most;
    for (uint32_t i = 0; i < FACE_TIMES_CELLS; i++) to->cell[i] += from->cell[i];
}

uint64_t face_times_at(const struct face_times *t, double percent)
{
    uint64_t rank = (uint64_t)ceil(percent / 100 * (double)t->count), seen = 0;
    if (rank >= t->count) return t->most;
    for (uint32_t i = 0; i < FACE_TIMES_CELLS; i++) {
        seen += t->cell[i];
        if (seen >= rank && seen) return times_top(i) < t->most ? times_top(i) : t->most;
    }
    return t->most;
}
