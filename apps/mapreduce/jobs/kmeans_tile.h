/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kmeans_tile.h: the nearest centres of a tile of points. On a GPU it is a matrix product of 128 points and
 * 64 centres at a time: 16 coordinates of each lie in shared memory, and a thread keeps the scores of 8
 * points and 4 centres in registers. Two such blocks fit on a multiprocessor, and one computes while the
 * other loads. Fewer threads go point by point.
 */
#ifndef MAPREDUCE_KMEANS_TILE_H
#define MAPREDUCE_KMEANS_TILE_H

#include "../fast.h"
#include "../formats.h"
#include "../mapreduce.h"

enum {
    KMEANS_TILE = 128,   /* points at a time */
    KMEANS_CENTRES = 64, /* centres at a time */
    KMEANS_DEEP = 16,
    KMEANS_SIDE = 8,                           /* points of a thread */
    KMEANS_FEW = 4,                            /* centres of a thread */
    KMEANS_ACROSS = KMEANS_TILE / KMEANS_SIDE, /* threads that share the points */
    KMEANS_THREADS = KMEANS_ACROSS * KMEANS_ACROSS,
    KMEANS_ROW = KMEANS_TILE + 4, /* so that writers of a column meet few banks twice */
};

/* What the maps get; half squares of the centres follow, then their coordinates: [dims][padded]. */
struct kmeans_state {
    uint32_t padded, dims, item, measuring; /* centres, a multiple of the tile; coordinates; bytes of one */
    double scale;
    uint64_t pad[5];
};

struct kmeans_tile {
    float x[KMEANS_DEEP][KMEANS_ROW], c[KMEANS_DEEP][KMEANS_CENTRES]; /* the points' are negative */
    float best[KMEANS_TILE][KMEANS_ACROSS + 1];
    uint32_t which[KMEANS_TILE][KMEANS_ACROSS + 1];
    uint32_t nearest[KMEANS_TILE];
} __attribute__((aligned(16))); /* four neighbours are loaded at once */

/* Four neighbours, which a GPU loads at once. */
struct kmeans_four {
    float v[4];
} __attribute__((aligned(16)));

/* The sums of a key: dims coordinates, and how many points. */
GW_DEV uint64_t *kmeans_sum(struct mr_map *m, uint32_t key)
{
    return mr_sums(m, &key, sizeof(key));
}

/* The nearest centre of a point: the scores of 32 centres at a time. */
GW_HOT_FN uint32_t kmeans_nearest_loop(const struct kmeans_state *s, const uint8_t *point)
{
    const float *half = (const float *)(s + 1);
    uint32_t which = 0, k, d, j;
    float best = INFINITY;

    for (k = 0; k < s->padded; k += 32) {
        const float *column = half + s->padded + k;
        float score[32];

        for (j = 0; j < 32; j++) score[j] = half[k + j];
        for (d = 0; d < s->dims; d++, column += s->padded) {
            float x = -mr_npy_value(point, d, s->item);

            for (j = 0; j < 32; j++) score[j] = fmaf(x, column[j], score[j]);
        }
        for (j = 0; j < 32; j++)
            if (score[j] < best) {
                best = score[j];
                which = k + j;
            }
    }
    return which;
}

MR_FAST_CPU uint32_t kmeans_nearest_fast(const struct kmeans_state *s, const uint8_t *point)
{
    return kmeans_nearest_loop(s, point);
}

/* Each thread takes points of its own. */
GW_DEV void kmeans_nearest_each(const struct kmeans_state *s, const uint8_t *point, uint32_t n,
                                struct kmeans_tile *t)
{
    uint32_t i;

    for (i = gw_thread_idx(); i < n; i += gw_block_dim()) {
        const uint8_t *p = point + (uint64_t)i * s->dims * s->item;

        t->nearest[i] = mr_fast_cpu() ? kmeans_nearest_fast(s, p) : kmeans_nearest_loop(s, p);
    }
}

/* Puts 16 coordinates of the points and of 128 centres into shared memory; zeros where there are none. */
GW_DEV void kmeans_load(const struct kmeans_state *s, const uint8_t *point, uint32_t n, const float *column,
                        uint32_t from, struct kmeans_tile *t)
{
    uint32_t i;

    for (i = gw_thread_idx(); i < KMEANS_TILE * KMEANS_DEEP; i += gw_block_dim()) {
        uint32_t p = i / KMEANS_DEEP, d = i % KMEANS_DEEP;

        t->x[d][p] =
            p < n && from + d < s->dims ? -mr_npy_value(point, (uint64_t)p * s->dims + from + d, s->item) : 0;
    }
    for (i = gw_thread_idx(); i < KMEANS_CENTRES * KMEANS_DEEP; i += gw_block_dim()) {
        uint32_t d = i / KMEANS_CENTRES, c = i % KMEANS_CENTRES;

        t->c[d][c] = from + d < s->dims ? column[(uint64_t)(from + d) * s->padded + c] : 0;
    }
}

/* A thread's points: four, and the four that are half a tile further. */
#define KMEANS_AT(i, at) ((at)*4 + ((i)&3) + ((i)&4) * (KMEANS_TILE / 8))

/* Adds the products of 16 coordinates. */
GW_DEV void kmeans_multiply(const struct kmeans_tile *t, uint32_t px, uint32_t cx,
                            float score[KMEANS_SIDE][KMEANS_FEW])
{
    uint32_t d, i, j;

    for (d = 0; d < KMEANS_DEEP; d++) {
        struct kmeans_four x[2], c;

        x[0] = *(const struct kmeans_four *)&t->x[d][px * 4];
        x[1] = *(const struct kmeans_four *)&t->x[d][px * 4 + KMEANS_TILE / 2];
        c = *(const struct kmeans_four *)&t->c[d][cx * 4];
        for (i = 0; i < KMEANS_SIDE; i++)
            for (j = 0; j < KMEANS_FEW; j++) score[i][j] = fmaf(x[i / 4].v[i % 4], c.v[j], score[i][j]);
    }
}

/* All threads of a block of 256 or more; those above only help to load. */
GW_DEV void kmeans_nearest_tile(const struct kmeans_state *s, const uint8_t *point, uint32_t n,
                                struct kmeans_tile *t)
{
    const float *half = (const float *)(s + 1);
    uint32_t px = gw_thread_idx() / KMEANS_ACROSS, cx = gw_thread_idx() % KMEANS_ACROSS, which[KMEANS_SIDE],
             k, d, i, j;
    bool works = gw_thread_idx() < KMEANS_THREADS;
    float best[KMEANS_SIDE], score[KMEANS_SIDE][KMEANS_FEW];

    for (i = 0; i < KMEANS_SIDE; i++) {
        best[i] = INFINITY;
        which[i] = 0;
    }
    for (k = 0; k < s->padded; k += KMEANS_CENTRES) {
        for (j = 0; j < KMEANS_FEW; j++)
            for (i = 0; i < KMEANS_SIDE; i++) score[i][j] = half[k + cx * KMEANS_FEW + j];
        for (d = 0; d < s->dims; d += KMEANS_DEEP) {
            gw_syncthreads(); /* what lies there has been read */
            kmeans_load(s, point, n, half + s->padded + k, d, t);
            gw_syncthreads();
            if (works) kmeans_multiply(t, px, cx, score);
        }
        for (j = 0; j < KMEANS_FEW; j++)
            for (i = 0; i < KMEANS_SIDE; i++)
                if (score[i][j] < best[i]) {
                    best[i] = score[i][j];
                    which[i] = k + cx * KMEANS_FEW + j;
                }
    }
    for (i = 0; i < KMEANS_SIDE && works; i++) {
        t->best[KMEANS_AT(i, px)][cx] = best[i];
        t->which[KMEANS_AT(i, px)][cx] = which[i];
    }
    gw_syncthreads();
    for (i = gw_thread_idx(); i < KMEANS_TILE; i += gw_block_dim()) {
        uint32_t least = 0;

        for (j = 1; j < KMEANS_ACROSS; j++)
            if (t->best[i][j] < t->best[i][least] ||
                (t->best[i][j] == t->best[i][least] && t->which[i][j] < t->which[i][least]))
                least = j;
        t->nearest[i] = t->which[i][least];
    }
}

#endif
