/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that work on each row alone, but for products: they move little memory. */
#ifndef GW_GENERATE_GPU_KERNELS_ROWS_H
#define GW_GENERATE_GPU_KERNELS_ROWS_H

#include "src/generate/gpu/kernels/element.h"

GW_KERNEL(gen_embed_kernel, struct gen_embed_args, a)
{
    uint32_t row = gw_block_idx(), i, n;

    if (row >= gen_count_rows(&a->count)) return;
    n = a->learned ? a->count.step->position[row] + a->offset : a->count.step->token[row];
    if (n >= a->w.n) n = a->w.n - 1; /* the scheduler has checked tokens: this is for memory's sake */
    for (i = gw_thread_idx(); i < a->w.k; i += gw_block_dim())
        gen_row_put(&a->y, row, i, gen_matrix_get(&a->w, n, i) * a->scale);
}

struct gen_norm_room {
    float part[GEN_GPU_THREADS];
};

/* The sum over the block's threads; all of them get it. */
GW_DEV float gen_block_sum(struct gen_norm_room *room, float v)
{
    uint32_t i, n = gw_block_dim() < GEN_GPU_THREADS ? gw_block_dim() : GEN_GPU_THREADS, half;

    room->part[gw_thread_idx()] = v;
    gw_syncthreads();
    while (n > 1) {
        half = (n + 1) / 2;
        i = gw_thread_idx();
        if (i < n - half) room->part[i] += room->part[i + half];
        n = half;
        gw_syncthreads();
    }
    v = room->part[0];
    gw_syncthreads(); /* all have read it before the next sum overwrites it */
    return v;
}

GW_KERNEL(gen_norm_kernel, struct gen_norm_args, a)
{
    GW_SHARED(struct gen_norm_room, room);
    uint32_t row = gw_block_idx() / a->segments, first = gw_block_idx() % a->segments * a->segment, i;
    float mean = 0, sum = 0, by;

    if (row >= gen_count_rows(&a->count)) return;
    if (a->mean) {
        for (i = gw_thread_idx(); i < a->segment; i += gw_block_dim())
            mean += gen_row_get(&a->x, row, first + i);
        mean = gen_block_sum(room, mean) / (float)a->segment;
    }
    for (i = gw_thread_idx(); i < a->segment; i += gw_block_dim()) {
        float v = gen_row_get(&a->x, row, first + i) - mean;
        sum += v * v;
    }
    by = 1 / sqrtf(gen_block_sum(room, sum) / (float)a->segment + a->epsilon);
    for (i = gw_thread_idx(); i < a->segment; i += gw_block_dim()) {
        float v = (gen_row_get(&a->x, row, first + i) - mean) * by;
        if (a->weight) v *= a->weight[i];
        if (a->bias) v += a->bias[i];
        if (a->add.p) v += gen_row_get(&a->add, row, first + i);
        gen_row_put(&a->y, row, first + i, v);
    }
}

/* Element i of all heads, after the turn to that position. */
GW_DEV float gen_turned(const struct gen_turn *t, uint32_t row, uint32_t position, uint32_t i)
{
    uint32_t in = i % t->head, upper, pair, other;
    float v = gen_row_get(&t->x, row, i), w;

    if (in >= 2 * t->half) return v;
    pair = t->interleaved ? in / 2 : in % t->half;
    upper = t->interleaved ? in % 2 : in / t->half;
    other = t->interleaved ? i - in + (in ^ 1) : upper ? i - t->half : i + t->half;
    w = gen_row_get(&t->x, row, other) * t->sine[(uint64_t)position * t->half + pair];
    return v * t->cosine[(uint64_t)position * t->half + pair] + (upper ? w : -w);
}

GW_DEV void gen_place_store(const struct gen_place_args *a, const struct gen_turn *t, uint32_t row,
                            uint32_t kind)
{
    const struct gen_step *s = a->count.step;
    const struct gen_cache *c = &a->cache;
    uint32_t lane = s->lane[row], at = s->position[row], i;
    uint32_t page = s->page[(uint64_t)lane * s->lane_pages + at / GEN_PAGE];
    uint64_t start = gen_cache_page(c, a->layer, kind, page) + (uint64_t)(at % GEN_PAGE) * c->width;

    for (i = gw_thread_idx(); i < t->heads * t->head; i += gw_block_dim())
        gen_put(c->dtype, c->at, start + (uint64_t)(i / t->head) * GEN_PAGE * c->width + i % t->head,
                gen_turned(t, row, at, i));
}

GW_KERNEL(gen_place_kernel, struct gen_place_args, a)
{
    const struct gen_step *s = a->count.step;
    uint32_t row = gw_block_idx(), i;

    if (row >= gen_count_rows(&a->count) || s->lane[row] == GEN_NO_LANE) return;
    for (i = gw_thread_idx(); i < a->q.heads * a->q.head; i += gw_block_dim())
        gen_row_put(&a->y, row, i, gen_turned(&a->q, row, s->position[row], i));
    if (a->k.heads) gen_place_store(a, &a->k, row, 0);
    if (a->v.heads) gen_place_store(a, &a->v, row, 1);
}

GW_DEV float gen_act(uint32_t act, float x)
{
    switch (act) {
    case GEN_SILU: return x / (1 + expf(-x));
    case GEN_GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case GEN_GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case GEN_RELU: return x < 0 ? 0 : x;
    case GEN_QUICK_GELU: return x / (1 + expf(-1.702f * x));
    default: return x < 0 ? 0 : x * x;
    }
}

GW_DEV float gen_each(const struct gen_each_args *a, uint32_t row, uint32_t i)
{
    float x = gen_row_get(&a->a, row, i);

    switch (a->kind) {
    case GEN_EACH_ADD: return x + gen_row_get(&a->b, row, i);
    case GEN_EACH_BIAS: return x + a->bias[i];
    case GEN_EACH_MUL: return x * gen_row_get(&a->b, row, i);
    case GEN_EACH_SCALE: return x * a->number;
    case GEN_EACH_ACT: return gen_act(a->act, x);
    case GEN_EACH_GATE: return gen_act(a->act, x) * gen_row_get(&a->b, row, i);
    default: return tanhf(x / a->number) * a->number;
    }
}

GW_KERNEL(gen_each_kernel, struct gen_each_args, a)
{
    uint32_t row = gw_block_idx() / a->parts, first = gw_block_idx() % a->parts * GEN_GPU_EACH, i;
    uint32_t end = first + GEN_GPU_EACH < a->width ? first + GEN_GPU_EACH : a->width;

    if (row >= gen_count_rows(&a->count)) return;
    for (i = first + gw_thread_idx(); i < end; i += gw_block_dim())
        gen_row_put(&a->y, row, i, gen_each(a, row, i));
}

GW_KERNEL(gen_pick_kernel, struct gen_pick_args, a)
{
    uint32_t row = gw_block_idx(), i;

    if (row >= gen_count_rows(&a->count)) return;
    for (i = gw_thread_idx(); i < a->width; i += gw_block_dim())
        gen_row_put(&a->y, row, i, gen_row_get(&a->x, a->count.step->out[row], i));
}

struct gen_tiles_room {
    uint32_t sum[GEN_GPU_THREADS], before;
};

/* Cuts each run into tiles. Each thread has a run; its tiles come after those of the runs before it. */
GW_KERNEL(gen_tiles_kernel, struct gen_tiles_args, a)
{
    GW_SHARED(struct gen_tiles_room, room);
    uint32_t me = gw_thread_idx(), threads = gw_block_dim(), first, step, i, own, at;

    if (me == 0) room->before = 0;
    for (first = 0; first < a->step->runs; first += threads) {
        struct gen_run run = {0, 0, 0, 0};
        if (first + me < a->step->runs) run = a->step->run[first + me];
        own = (run.rows + a->each - 1) / a->each;
        room->sum[me] = own;
        for (step = 1; step < threads; step *= 2) {
            gw_syncthreads(); /* sums of the round before are there */
            at = me >= step ? room->sum[me - step] : 0;
            gw_syncthreads(); /* all have read them */
            room->sum[me] += at;
        }
        gw_syncthreads();
        at = room->before + room->sum[me] - own;
        for (i = 0; i < own; i++) {
            struct gen_tile t = {run.row + i * a->each, run.rows - i * a->each, run.lane, 0};
            if (t.rows > a->each) t.rows = a->each;
            a->tile[at + i] = t;
        }
        gw_syncthreads(); /* all have read `before` */
        if (me == threads - 1) room->before += room->sum[me];
        gw_syncthreads();
    }
    gw_syncthreads(); /* also where there is no run: `before` is set */
    if (me == 0) *a->tiles = room->before;
}

#endif
