/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lbp.h: the histogram of a picture, and the distance of two, by all threads of a block. Everything they
 * share lies in memory that the block's threads share. Results equal face.h's plain functions to the bit.
 */
#ifndef FACE_LBP_H
#define FACE_LBP_H

#include <gpuwire/group.h>

#include "apps/faceverify/face.h"

/* What a block works on: a picture, or the value that its histogram is compared with. */
struct face_desk {
    union {
        uint8_t picture[FACE_PIXELS];
        struct face_value value;
    } on __attribute__((aligned(16)));
    uint32_t pairs[FACE_COUNTS / 2]; /* two counts in each word: the histogram as it lies in memory */
    uint32_t cell_sum[FACE_CELLS], terms;
    uint8_t bin[256];
};

/* Once, before the first use. */
GW_DEV void face_desk_prepare(struct face_desk *d)
{
    if (gw_thread_idx() == 0) face_bins(d->bin);
    gw_syncthreads();
}

/* One step down a column: the window's rows move up, and a new one comes in. */
struct face_window {
    uint32_t up[3], here[3], down[3];
};

GW_DEV void face_window_row(uint32_t row[3], const uint8_t *pixels, int x, int y)
{
    const uint8_t *p = pixels + (y < 0 ? 0 : y < FACE_SIDE ? y : FACE_SIDE - 1) * FACE_SIDE;

    row[0] = p[x ? x - 1 : 0];
    row[1] = p[x];
    row[2] = p[x < FACE_SIDE - 1 ? x + 1 : x];
}

/* As face_code. */
GW_DEV uint32_t face_window_code(const struct face_window *w)
{
    uint32_t c = w->here[1];

    return (uint32_t)(w->here[2] >= c) | (uint32_t)(w->up[2] >= c) << 1 | (uint32_t)(w->up[1] >= c) << 2 |
           (uint32_t)(w->up[0] >= c) << 3 | (uint32_t)(w->here[0] >= c) << 4 |
           (uint32_t)(w->down[0] >= c) << 5 | (uint32_t)(w->down[1] >= c) << 6 |
           (uint32_t)(w->down[2] >= c) << 7;
}

/* The pixels of column x in row `gy` of cells, from top to bottom: three new pixels a step. */
GW_DEV void face_strip(struct face_desk *d, int x, int gy)
{
    uint32_t first = (uint32_t)(gy * FACE_GRID + x / FACE_CELL) * FACE_BINS, i;
    struct face_window w;
    int y = gy * FACE_CELL, end = y + FACE_CELL, k;

    face_window_row(w.up, d->on.picture, x, y - 1);
    face_window_row(w.here, d->on.picture, x, y);
    for (; y < end; y++) {
        face_window_row(w.down, d->on.picture, x, y + 1);
        i = first + d->bin[face_window_code(&w)];
        gw_shared_add_u32(&d->pairs[i / 2], 1u << i % 2 * 16);
        for (k = 0; k < 3; k++) w.up[k] = w.here[k], w.here[k] = w.down[k];
    }
}

/* The histogram of `picture`, to `out`; both lie in global memory, and are aligned to 16. */
GW_DEV void face_block_histogram(struct face_desk *d, const uint8_t *picture, struct face_histogram *out)
{
    uint32_t me = gw_thread_idx(), all = gw_block_dim(), i;

    gw_copy_share(d->on.picture, picture, FACE_PIXELS, me, all);
    for (i = me; i < FACE_COUNTS / 2; i += all) d->pairs[i] = 0;
    gw_syncthreads();
    for (i = me; i < FACE_SIDE * FACE_GRID; i += all)
        face_strip(d, (int)(i % FACE_SIDE), (int)(i / FACE_SIDE));
    gw_syncthreads();
    gw_copy_share(out, d->pairs, sizeof(*out), me, all);
    gw_syncthreads();
}

/* This thread's share of a comparison: parts of cells. */
GW_DEV void face_compare_share(struct face_desk *d, const struct face_histogram *own)
{
    uint32_t all = gw_block_dim(), parts = all < FACE_CELLS ? 1 : all / FACE_CELLS, k, i, sum, terms = 0;
    const uint16_t *theirs = d->on.value.histogram.count;

    for (k = gw_thread_idx(); k < FACE_CELLS * parts; k += all) {
        for (sum = 0, i = k / parts * FACE_BINS + k % parts; i < (k / parts + 1) * FACE_BINS; i += parts) {
            sum += theirs[i];
            /* A count that is too large: its cell's sum tells. The term would not fit its type. */
            if (theirs[i] <= FACE_CELL_PIXELS) terms += face_term(own->count[i], theirs[i]);
        }
        gw_shared_add_u32(&d->cell_sum[k / parts], sum);
    }
    gw_shared_add_u32(&d->terms, terms);
}

/* The sum of terms of the value on the desk and an own histogram, in global memory. UINT32_MAX: the value is
 * not what a picture gives. All threads get it. The desk's value must be visible to all. */
GW_DEV uint32_t face_block_compare(struct face_desk *d, const struct face_histogram *own)
{
    uint32_t me = gw_thread_idx(), all = gw_block_dim(), i, terms;

    for (i = me; i < FACE_CELLS; i += all) d->cell_sum[i] = 0;
    if (me == 0) d->terms = 0;
    gw_syncthreads();
    face_compare_share(d, own);
    gw_syncthreads();
    terms = d->terms;
    for (i = 0; i < FACE_CELLS; i++)
        if (d->cell_sum[i] != FACE_CELL_PIXELS) terms = UINT32_MAX;
    gw_syncthreads(); /* all have looked before the next one begins */
    return terms;
}

#endif
