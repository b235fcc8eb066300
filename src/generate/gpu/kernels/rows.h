/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that work on each row alone, but for products: they move little memory. */
#ifndef GW_GENERATE_GPU_KERNELS_ROWS_H
#define GW_GENERATE_GPU_KERNELS_ROWS_H

#include "src/generate/gpu/kernels/element.h"

/* Calls a function whose last argument is a type that the compiler then knows. So loads need no branches. A
 * thread asks for several elements before it waits for the first. */
#define GEN_BY_TYPE(type, function, ...)                                                                     \
    do {                                                                                                     \
        if ((type) == GW_DTYPE_F32)                                                                          \
            function(__VA_ARGS__, GW_DTYPE_F32);                                                             \
        else if ((type) == GW_DTYPE_F16)                                                                     \
            function(__VA_ARGS__, GW_DTYPE_F16);                                                             \
        else                                                                                                 \
            function(__VA_ARGS__, GW_DTYPE_BF16);                                                            \
    } while (0)

#define ROWS_AHEAD 4 /* elements of a thread */

/* A block's part of a row. */
struct gen_span {
    uint32_t row, first, end;
};

/* The row is past the last one where there is nothing to do. */
GW_DEV struct gen_span gen_span(uint32_t width, uint32_t parts)
{
    struct gen_span s = {gw_block_idx() / parts, gw_block_idx() % parts * GEN_GPU_EACH, 0};

    s.end = s.first + GEN_GPU_EACH < width ? s.first + GEN_GPU_EACH : width;
    return s;
}

GWM_INLINE float gen_rows_get(const struct gen_rows *x, uint32_t row, uint32_t i, uint32_t type)
{
    return gen_get(type, x->p, (uint64_t)row * x->stride + i);
}

GW_KERNEL(gen_embed_kernel, struct gen_embed_args, a)
{
    struct gen_span s = gen_span(a->w.k, a->parts);
    uint32_t i, n;

    if (s.row >= gen_count_rows(&a->count)) return;
    n = a->learned ? a->count.step->position[s.row] + a->offset : a->count.step->token[s.row];
    if (n >= a->w.n) n = a->w.n - 1; /* the scheduler has checked tokens: this is for memory's sake */
    for (i = s.first + gw_thread_idx(); i < s.end; i += gw_block_dim())
        gen_row_put(&a->y, s.row, i, gen_matrix_get(&a->w, n, i) * a->scale);
}

#define NORM_THREADS 512 /* at most */
struct gen_norm_room {
    float part[NORM_THREADS / 2];
};

/* The sum over the block's threads, of which there are a power of two; all of them get it. */
GW_DEV float gen_block_sum(struct gen_norm_room *room, float v)
{
    uint32_t step, warps = (gw_block_dim() + 31) / 32, bits;

    for (step = gw_warp_size() / 2; step; step /= 2) {
        memcpy(&bits, &v, sizeof(bits));
        v += gen_bits_float(gw_shfl_u32(gw_warp_all(), bits, gw_lane() ^ step));
    }
    if (warps == 1) return v;
    if (gw_lane() == 0) room->part[gw_warp_idx()] = v;
    gw_syncthreads(); /* all parts are there */
    for (v = 0, step = 0; step < warps; step++) v += room->part[step];
    gw_syncthreads(); /* all have read them before the next sum overwrites them */
    return v;
}

GWM_INLINE float gen_norm_sum(const struct gen_norm_args *a, uint32_t row, uint32_t first, float mean,
                              uint32_t square, uint32_t type)
{
    uint32_t i, u, step = gw_block_dim();
    float sum = 0;

    for (i = gw_thread_idx(); i < a->segment; i += ROWS_AHEAD * step) {
        float v[ROWS_AHEAD];
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++)
            v[u] =
                i + u * step < a->segment ? gen_rows_get(&a->x, row, first + i + u * step, type) - mean : 0;
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++) sum += square ? v[u] * v[u] : v[u];
    }
    return sum;
}

GWM_INLINE void gen_norm_put(const struct gen_norm_args *a, uint32_t row, uint32_t first, float mean,
                             float by, uint32_t type)
{
    uint32_t i, u, step = gw_block_dim();

    for (i = gw_thread_idx(); i < a->segment; i += ROWS_AHEAD * step) {
        float v[ROWS_AHEAD];
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++) {
            uint32_t at = i + u * step < a->segment ? i + u * step : i;
            v[u] = (gen_rows_get(&a->x, row, first + at, type) - mean) * by;
            if (a->weight) v[u] *= a->weight[at];
            if (a->bias) v[u] += a->bias[at];
            if (a->add.p) v[u] += gen_rows_get(&a->add, row, first + at, type);
        }
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++)
            if (i + u * step < a->segment) gen_row_put(&a->y, row, first + i + u * step, v[u]);
    }
}

GWM_INLINE void gen_norm(const struct gen_norm_args *a, struct gen_norm_room *room, uint32_t type)
{
    uint32_t row = gw_block_idx() / a->segments, first = gw_block_idx() % a->segments * a->segment;
    float mean = 0, sum;

    if (a->mean) mean = gen_block_sum(room, gen_norm_sum(a, row, first, 0, 0, type)) / (float)a->segment;
    sum = gen_block_sum(room, gen_norm_sum(a, row, first, mean, 1, type));
    gen_norm_put(a, row, first, mean, 1 / sqrtf(sum / (float)a->segment + a->epsilon), type);
}

GW_KERNEL(gen_norm_kernel, struct gen_norm_args, a)
{
    GW_SHARED(struct gen_norm_room, room);

    if (gw_block_idx() / a->segments >= gen_count_rows(&a->count)) return;
    GEN_BY_TYPE(a->x.type, gen_norm, a, room);
}

/* Element i of all heads, after the turn to that position. Without branches around loads: so several elements
 * are under way. */
GWM_INLINE float gen_turned(const struct gen_turn *t, uint32_t row, uint32_t position, uint32_t i,
                            uint32_t type)
{
    uint32_t in = i % t->head, half = t->half ? t->half : 1, turned = in < 2 * t->half;
    uint32_t pair = t->interleaved ? in / 2 : in % half, upper = t->interleaved ? in % 2 : in / half;
    uint32_t other = t->interleaved ? i - in + (in ^ 1) : upper ? i - half : i + half;
    uint64_t at = (uint64_t)position * half + pair;
    float v = gen_rows_get(&t->x, row, i, type), w = gen_rows_get(&t->x, row, turned ? other : i, type);
    float cosine = turned ? t->cosine[at] : 1, sine = turned ? t->sine[at] : 0;

    return turned ? v * cosine + (upper ? w : -w) * sine : v;
}

/* Element i of a row's keys (kind 0) or values, into the lane's page. */
GW_DEV void gen_place_store(const struct gen_place_args *a, uint32_t row, uint32_t kind, uint32_t i, float v)
{
    const struct gen_step *s = a->count.step;
    const struct gen_cache *c = &a->cache;
    uint32_t lane = s->lane[row], at = s->position[row], head = kind ? a->v.head : a->k.head;
    uint32_t page = s->page[(uint64_t)lane * s->lane_pages + at / GEN_PAGE];
    uint64_t to = gen_cache_page(c, a->layer, kind, page) + (uint64_t)(at % GEN_PAGE) * c->width;

    gen_put(c->dtype, c->at, to + (uint64_t)(i / head) * GEN_PAGE * c->width + i % head, v);
}

/* Queries, keys and values of a row are one after another. */
GWM_INLINE void gen_place(const struct gen_place_args *a, const struct gen_span *s, uint32_t type)
{
    uint32_t q = a->q.heads * a->q.head, k = q + a->k.heads * a->k.head, i, u, step = gw_block_dim();
    uint32_t position = a->count.step->position[s->row];

    for (i = s->first + gw_thread_idx(); i < s->end; i += ROWS_AHEAD * step) {
        float v[ROWS_AHEAD];
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++) {
            uint32_t e = i + u * step < s->end ? i + u * step : i;
            const struct gen_turn *t = e < q ? &a->q : e < k ? &a->k : &a->v;
            v[u] = gen_turned(t, s->row, position, e - (e < q ? 0 : e < k ? q : k), type);
        }
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++) {
            uint32_t e = i + u * step;
            if (e >= s->end) continue;
            if (e < q)
                gen_row_put(&a->y, s->row, e, v[u]);
            else
                gen_place_store(a, s->row, e >= k, e - (e < k ? q : k), v[u]);
        }
    }
}

GW_KERNEL(gen_place_kernel, struct gen_place_args, a)
{
    struct gen_span s = gen_span(a->width, a->parts);

    if (s.row >= gen_count_rows(&a->count) || a->count.step->lane[s.row] == GEN_NO_LANE) return;
    GEN_BY_TYPE(a->type, gen_place, a, &s);
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

GW_DEV float gen_each(const struct gen_each_args *a, float x, float y)
{
    switch (a->kind) {
    case GEN_EACH_ADD: return x + y;
    case GEN_EACH_MUL: return x * y;
    case GEN_EACH_SCALE: return x * a->number;
    case GEN_EACH_ACT: return gen_act(a->act, x);
    case GEN_EACH_GATE: return gen_act(a->act, x) * y;
    default: return tanhf(x / a->number) * a->number;
    }
}

GWM_INLINE void gen_each_span(const struct gen_each_args *a, const struct gen_span *s, uint32_t type)
{
    uint32_t i, u, step = gw_block_dim();

    for (i = s->first + gw_thread_idx(); i < s->end; i += ROWS_AHEAD * step) {
        float v[ROWS_AHEAD], w[ROWS_AHEAD];
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++) {
            uint32_t e = i + u * step < s->end ? i + u * step : i;
            v[u] = gen_rows_get(&a->a, s->row, e, type);
            w[u] = a->bias ? a->bias[e] : a->b.p ? gen_rows_get(&a->b, s->row, e, type) : 0;
        }
        GWM_UNROLL
        for (u = 0; u < ROWS_AHEAD; u++)
            if (i + u * step < s->end) gen_row_put(&a->y, s->row, i + u * step, gen_each(a, v[u], w[u]));
    }
}

GW_KERNEL(gen_each_kernel, struct gen_each_args, a)
{
    struct gen_span s = gen_span(a->width, a->parts);

    if (s.row < gen_count_rows(&a->count)) GEN_BY_TYPE(a->a.type, gen_each_span, a, &s);
}

GW_KERNEL(gen_pick_kernel, struct gen_pick_args, a)
{
    struct gen_span s = gen_span(a->width, a->parts);
    uint32_t i;

    if (s.row >= gen_count_rows(&a->count)) return;
    for (i = s.first + gw_thread_idx(); i < s.end; i += gw_block_dim())
        gen_row_put(&a->y, s.row, i, gen_row_get(&a->x, a->count.step->out[s.row], i));
}

struct gen_tiles_room {
    uint32_t sum[GEN_GPU_THREADS], before;
};

#define TILES_SINGLE (1u << 16) /* sums count single rows above, tiles below: there are 1,024 rows at most */

/* What a run comes to. */
GW_DEV uint32_t gen_tiles_of(uint32_t rows, uint32_t each)
{
    return rows == 1 ? TILES_SINGLE : (rows + each - 1) / each;
}

GW_DEV void gen_tiles_put(const struct gen_tiles_args *a, const struct gen_run *run, uint32_t at)
{
    uint32_t i;

    if (run->rows == 1) a->single[at / TILES_SINGLE] = run->row;
    for (i = 0; run->rows > 1 && i * a->each < run->rows; i++) {
        struct gen_tile t = {run->row + i * a->each, run->rows - i * a->each, run->lane, 0};
        if (t.rows > a->each) t.rows = a->each;
        a->tile[at % TILES_SINGLE + i] = t;
    }
}

/* Cuts runs into tiles. Each thread has a run; its tiles come after those of the runs before it. */
GW_KERNEL(gen_tiles_kernel, struct gen_tiles_args, a)
{
    GW_SHARED(struct gen_tiles_room, room);
    uint32_t me = gw_thread_idx(), threads = gw_block_dim(), first, step, own, at;

    if (me == 0) room->before = 0;
    for (first = 0; first < a->step->runs; first += threads) {
        struct gen_run run = {0, 0, 0, 0};
        if (first + me < a->step->runs) run = a->step->run[first + me];
        own = gen_tiles_of(run.rows, a->each);
        room->sum[me] = own;
        for (step = 1; step < threads; step *= 2) {
            gw_syncthreads(); /* sums of the round before are there */
            at = me >= step ? room->sum[me - step] : 0;
            gw_syncthreads(); /* all have read them */
            room->sum[me] += at;
        }
        gw_syncthreads();
        gen_tiles_put(a, &run, room->before + room->sum[me] - own);
        gw_syncthreads(); /* all have read `before` */
        if (me == threads - 1) room->before += room->sum[me];
        gw_syncthreads();
    }
    gw_syncthreads(); /* also where there is no run: `before` is set */
    if (me > 0) return;
    *a->tiles = room->before % TILES_SINGLE;
    *a->singles = room->before / TILES_SINGLE;
}

#endif
