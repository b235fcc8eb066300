/* SPDX-License-Identifier: Apache-2.0 */
/* Adds times to a histogram, and reads percentiles from it. */
#include "src/cli/histogram.h"

#include <math.h>
#include <string.h>

#define HALF_BITS (GW_HISTOGRAM_BITS - 1)

/* After the first 2^BITS cells, each doubling has half as many: the upper half of the bits that count. */
static uint32_t cell_of(uint64_t value)
{
    if (value >> GW_HISTOGRAM_BITS == 0) return (uint32_t)value;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - HALF_BITS;
    return (shift << HALF_BITS) + (uint32_t)(value >> shift);
}

/* The largest value that the cell counts. */
static uint64_t top_of(uint32_t cell)
{
    if (cell >> GW_HISTOGRAM_BITS == 0) return cell;
    uint32_t shift = (cell >> HALF_BITS) - 1;
    uint64_t first = (uint64_t)(cell - (shift << HALF_BITS));
    return ((first + 1) << shift) - 1;
}

void gw_histogram_add(struct gw_histogram *h, int64_t value)
{
    uint64_t v = value < 0 ? 0 : (uint64_t)value > GW_HISTOGRAM_MAX ? GW_HISTOGRAM_MAX : (uint64_t)value;
    if (!h->count || v < h->least) h->least = v;
    if (v > h->most) h->most = v;
    h->count++;
    h->sum += (double)v;
    h->cell[cell_of(v)]++;
}

void gw_histogram_merge(struct gw_histogram *to, const struct gw_histogram *from)
{
    if (!from->count) return;
    if (!to->count || from->least < to->least) to->least = from->least;
    if (from->most > to->most) to->most = from->most;
    to->count += from->count;
    to->sum += from->sum;
    for (uint32_t i = 0; i < GW_HISTOGRAM_CELLS; i++) to->cell[i] += from->cell[i];
}

void gw_histogram_clear(struct gw_histogram *h)
{
    memset(h, 0, sizeof(*h));
}

uint64_t gw_histogram_percentile(const struct gw_histogram *h, double p)
{
    uint64_t rank = (uint64_t)ceil(p / 100.0 * (double)h->count), seen = 0;
    if (!h->count) return 0;
    if (rank >= h->count) return h->most;
    if (rank < 1) rank = 1;
    for (uint32_t i = 0; i < GW_HISTOGRAM_CELLS; i++) {
        seen += h->cell[i];
        if (seen >= rank) return top_of(i) < h->most ? top_of(i) : h->most;
    }
    return h->most;
}

double gw_histogram_mean(const struct gw_histogram *h)
{
    return h->count ? h->sum / (double)h->count : 0;
}
