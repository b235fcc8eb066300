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

#include "fast.h"

enum { MR_SUMS = 128 };

GW_HOT_FN float mr_dot_loop(const float *row, const float *x, uint64_t n)
{
    float sum[MR_SUMS] = {0};
    uint64_t c = 0;
    int i, half;

    for (; c + MR_SUMS <= n; c += MR_SUMS) { /* no GPU comes here: there a warp has a row */
        GW_NO_UNROLL_
        for (i = 0; i < MR_SUMS; i++) sum[i] = fmaf(row[c + i], x[c + i], sum[i]);
    }
    for (i = 0; c < n; i++, c++) sum[i] = fmaf(row[c], x[c], sum[i]);
    for (half = MR_SUMS / 2; half; half /= 2) {
        GW_NO_UNROLL_
        for (i = 0; i < half; i++) sum[i] += sum[i + half];
    }
    return sum[0];
}

MR_FAST_CPU float mr_dot_fast(const float *row, const float *x, uint64_t n)
{
    return mr_dot_loop(row, x, n);
}

/* One thread's whole row. */
GW_FN float mr_dot(const float *row, const float *x, uint64_t n)
{
    return mr_fast_cpu() ? mr_dot_fast(row, x, n) : mr_dot_loop(row, x, n);
}

#endif
