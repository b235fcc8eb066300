/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot.h: the one order in which a row's products are added, so that any number of threads, of a CPU or a GPU,
 * gives the same bytes.
 *
 * Column c belongs to sum c % 128. Each sum adds its products from the left, with one rounding each (fmaf).
 * Then sum i gets sum i + 64 added, for all i below 64; then i + 32 for all i below 32; and so on.
 */
#ifndef MAPREDUCE_DOT_H
#define MAPREDUCE_DOT_H

#include <math.h>

#include <gpuwire/fn.h>

enum { MR_SUMS = 128 };

/* One thread's whole row. A compiler makes vectors of the inner loop. */
GW_FN float mr_dot(const float *row, const float *x, uint64_t n)
{
    float sum[MR_SUMS] = {0};
    uint64_t c = 0;
    int i, half;

    for (; c + MR_SUMS <= n; c += MR_SUMS)
        for (i = 0; i < MR_SUMS; i++) sum[i] = fmaf(row[c + i], x[c + i], sum[i]);
    for (i = 0; c < n; i++, c++) sum[i] = fmaf(row[c], x[c], sum[i]);
    for (half = MR_SUMS / 2; half; half /= 2)
        for (i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

#endif
