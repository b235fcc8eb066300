/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that add up over many elements: a block, or a thread, for each result. */
#ifndef GW_MODEL_KERNELS_REDUCE_H
#define GW_MODEL_KERNELS_REDUCE_H

#include "src/model/kernels/device.h"

struct gwm_block_room {
    float v[GWM_BLOCK_MAX];
};

/* Two partial results of a reduction. */
GW_DEV float gwm_join(int32_t kind, float a, float b)
{
    return kind == GWM_REDUCE_MAX    ? gwm_larger(a, b)
           : kind == GWM_REDUCE_MIN  ? gwm_smaller(a, b)
           : kind == GWM_REDUCE_PROD ? a * b
                                     : a + b;
}

GW_DEV float gwm_shfl(float v, uint32_t lane)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    bits = gw_shfl_u32(gw_warp_all(), bits, lane);
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Sum, product, maximum or minimum over all threads of a block (at most GWM_BLOCK_MAX of them); all get
 * it. */
GW_DEV float gwm_over_block(struct gwm_block_room *room, float v, int32_t kind)
{
    uint32_t lane = gw_lane(), size = gw_warp_size(), warps = (gw_block_dim() + 31) / 32, step, i;

    for (step = 16; step > 0; step /= 2) {
        uint32_t from = lane + step < size ? lane + step : lane;
        float other = gwm_shfl(v, from);
        if (from != lane) v = gwm_join(kind, v, other);
    }
    if (lane == 0) room->v[gw_thread_idx() / 32] = v;
    gw_syncthreads();
    v = room->v[0];
    for (i = 1; i < warps; i++) v = gwm_join(kind, v, room->v[i]);
    gw_syncthreads(); /* all have read it before the next call writes */
    return v;
}

/* Sums of every step-th element from `first` on: several are on their way at a time. */
GWM_INLINE float gwm_sum_strided(const struct gwm_view *x, int32_t first, int32_t step, int32_t count)
{
    float sum = 0, v[GWM_MEAN_AHEAD];
    int32_t i, k;

    for (i = 0; i < count; i += GWM_MEAN_AHEAD) {
        GWM_UNROLL
        for (k = 0; k < GWM_MEAN_AHEAD; k++) {
            int32_t at =
                i + k < count ? i + k : count - 1; /* past the last the last is read again: no branch */
            v[k] = gwm_get(x, first + at * step);
        }
        GWM_UNROLL
        for (k = 0; k < GWM_MEAN_AHEAD; k++) sum += i + k < count ? v[k] : 0;
    }
    return sum;
}

/* Neighbouring threads read neighbouring elements, in either layout. */
GWM_INLINE void gwm_mean(const struct gwm_mean_args *a, struct gwm_block_room *room, int32_t block,
                         uint32_t type)
{
    struct gwm_view x = gwm_view_of(&a->x, type), y = gwm_view(&a->y);
    int32_t tid = (int32_t)gw_thread_idx(), lanes = a->last ? GWM_MEAN_LAST : 1, i;
    int32_t groups = (a->c + lanes - 1) / lanes, n = block / groups;
    int32_t c = block % groups * lanes + tid % lanes, rows = (int32_t)gw_block_dim() / lanes;
    int32_t first = a->last ? n * a->c * a->size + c : (n * a->c + c) * a->size, step = a->last ? a->c : 1;
    int32_t row = tid / lanes, count = c < a->c ? (a->size - row + rows - 1) / rows : 0;

    room->v[tid] = gwm_sum_strided(&x, first + row * step, rows * step, count);
    gw_syncthreads();
    for (i = 1; i < rows; i *= 2) {
        if (row % (2 * i) == 0 && row + i < rows) room->v[tid] += room->v[tid + i * lanes];
        gw_syncthreads();
    }
    if (tid < lanes && c < a->c) gwm_set(&y, n * a->c + c, room->v[tid] / (float)a->size);
}

GWM_EACH_KERNEL(gwm_mean_kernel, struct gwm_mean_args, a)
{
    GW_SHARED(struct gwm_block_room, room);
    GWM_BY_TYPE(a->x.type, gwm_mean, a, room, block);
}

/* Where the factors of one of the products begin. */
GW_DEV void gwm_gemm_start(const struct gwm_gemm_args *g, int32_t product, int32_t *oa, int32_t *ob)
{
    int32_t d;

    *oa = g->a_start;
    *ob = g->b_start;
    for (d = g->batch.rank - 1; d >= 0; d--) {
        int32_t at = product % g->batch.dims[d];
        product /= g->batch.dims[d];
        *oa += at * g->batch.a[d];
        *ob += at * g->batch.b[d];
    }
}

/* An element of the result: bias, sum and function. */
GW_DEV void gwm_gemm_store(const struct gwm_gemm_args *g, int32_t product, int32_t m, int32_t n, float sum)
{
    struct gwm_view y = gwm_view(&g->y), add = gwm_view(&g->add);
    int32_t oy = product * g->y_step + m * g->ym + n;

    sum *= g->alpha;
    if (g->bias) sum += g->bias[n];
    if (add.p) sum += gwm_get(&add, oy);
    gwm_set(&y, oy, gwm_activate(&g->act, sum));
}

GWM_EACH_KERNEL(gwm_gemm_kernel, struct gwm_gemm_args, g)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t n = block % g->n, row = block / g->n, m = row % g->m, oa, ob, k, step = (int32_t)gw_block_dim();
    struct gwm_view a = gwm_view(&g->a), b = gwm_view(&g->b);
    float sum = 0;

    gwm_gemm_start(g, row / g->m, &oa, &ob);
    oa += m * g->am, ob += n * g->bn;
    for (k = (int32_t)gw_thread_idx(); k < g->k; k += step)
        sum += gwm_get(&a, oa + k * g->ak) * gwm_get(&b, ob + k * g->bk);
    sum = gwm_over_block(room, sum, GWM_REDUCE_SUM);
    if (gw_thread_idx() == 0) gwm_gemm_store(g, row / g->m, m, n, sum);
}

GWM_EACH_KERNEL(gwm_softmax_kernel, struct gwm_softmax_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t row = block, first = row / p->s.inner * p->s.n * p->s.inner + row % p->s.inner, k;
    int32_t step = (int32_t)gw_block_dim(), tid = (int32_t)gw_thread_idx();
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    float max = -INFINITY, sum = 0;

    for (k = tid; k < p->s.n; k += step) max = gwm_larger(max, gwm_get(&x, first + k * p->s.inner));
    max = gwm_over_block(room, max, GWM_REDUCE_MAX);
    for (k = tid; k < p->s.n; k += step) sum += expf(gwm_get(&x, first + k * p->s.inner) - max);
    sum = gwm_over_block(room, sum, GWM_REDUCE_SUM);
    for (k = tid; k < p->s.n; k += step) {
        int32_t at = first + k * p->s.inner;
        float v = gwm_get(&x, at) - max;
        gwm_set(&y, at, p->s.log ? v - logf(sum) : expf(v) / sum);
    }
}

GW_DEV float gwm_over_warp(float v, int32_t kind)
{
    uint32_t lane = gw_lane(), size = gw_warp_size(), step;

    for (step = 16; step > 0; step /= 2) {
        uint32_t from = lane + step < size ? lane + step : lane;
        float other = gwm_shfl(v, from);
        if (from != lane) v = gwm_join(kind, v, other);
    }
    return gwm_shfl(v, 0);
}

/* ---- products of few rows ---- */

struct gwm_thin_room {
    float v[GWM_THIN_WARPS][GWM_THIN_ROWS][32];
};

/* Sums of up to GWM_THIN_ROWS rows times one column, over k = from, from + step and so on. */
GWM_INLINE void gwm_thin_sum(const struct gwm_gemm_args *g, int32_t oa, int32_t ob, int32_t rows,
                             int32_t from, int32_t step, float sum[GWM_THIN_ROWS], uint32_t type)
{
    struct gwm_view a = gwm_view_of(&g->a, type), b = gwm_view_of(&g->b, type);
    int32_t k, r;

    for (r = 0; r < GWM_THIN_ROWS; r++) sum[r] = 0;
    for (k = from; k < g->k; k += step) {
        float w = gwm_get(&b, ob + k * g->bk);
        GWM_UNROLL
        for (r = 0; r < GWM_THIN_ROWS; r++)
            if (r < rows) sum[r] += w * gwm_get(&a, oa + r * g->am + k * g->ak);
    }
}

/* The same of one row, over all lanes of a warp, where four elements lie together in it and in the column. */
GWM_INLINE float gwm_thin_row(const struct gwm_gemm_args *g, int32_t oa, int32_t ob, uint32_t type)
{
    struct gwm_view a = gwm_view_of(&g->a, type), b = gwm_view_of(&g->b, type);
    int32_t k, step = 4 * (int32_t)gw_warp_size();
    float sum = 0;

    for (k = 4 * (int32_t)gw_lane(); k < g->k; k += step) {
        struct gwm_f4 w = gwm_get4(&b, ob + k), v = gwm_get4(&a, oa + k);
        sum += w.x * v.x + w.y * v.y + (w.z * v.z + w.w * v.w);
    }
    return sum;
}

/* A column's elements lie together: a warp for each column, and for each product and group of rows. */
GWM_INLINE void gwm_thin_columns(const struct gwm_gemm_args *g, int32_t groups, uint32_t type)
{
    int32_t warps = (int32_t)(gw_block_dim() + 31) / 32, units = g->products * groups * g->n, u, r, oa, ob;
    int32_t step = (int32_t)gw_grid_dim() * warps;
    float sum[GWM_THIN_ROWS];

    for (u = (int32_t)gw_block_idx() * warps + (int32_t)gw_warp_idx(); u < units; u += step) {
        int32_t n = u % g->n, m = u / g->n % groups * GWM_THIN_ROWS, product = u / g->n / groups;
        gwm_gemm_start(g, product, &oa, &ob);
        oa += m * g->am, ob += n * g->bn;
        if (g->m == 1 && g->ak == 1 && !((g->k | oa | ob) % 4))
            sum[0] = gwm_thin_row(g, oa, ob, type);
        else
            gwm_thin_sum(g, oa, ob, g->m - m, (int32_t)gw_lane(), (int32_t)gw_warp_size(), sum, type);
        for (r = 0; r < GWM_THIN_ROWS && m + r < g->m; r++) {
            float all = gwm_over_warp(sum[r], GWM_REDUCE_SUM);
            if (gw_lane() == 0) gwm_gemm_store(g, product, m + r, n, all);
        }
    }
}

/* A row's elements lie together: a lane for each column, and the warps of a block share the sum. */
GWM_INLINE void gwm_thin_rows(const struct gwm_gemm_args *g, int32_t groups, struct gwm_thin_room *room,
                              uint32_t type)
{
    int32_t size = (int32_t)gw_block_dim() < 32 ? (int32_t)gw_block_dim() : 32;
    int32_t warps = ((int32_t)gw_block_dim() + 31) / 32, tiles = (g->n - 1) / size + 1, u, i, w, oa, ob;
    int32_t units = g->products * groups * tiles, lane = (int32_t)gw_lane(), warp = (int32_t)gw_warp_idx();
    float sum[GWM_THIN_ROWS];

    for (u = (int32_t)gw_block_idx(); u < units; u += (int32_t)gw_grid_dim()) {
        int32_t first = u % tiles * size, m = u / tiles % groups * GWM_THIN_ROWS,
                product = u / tiles / groups;
        gwm_gemm_start(g, product, &oa, &ob);
        if (first + lane < g->n) {
            gwm_thin_sum(g, oa + m * g->am, ob + (first + lane) * g->bn, g->m - m, warp, warps, sum, type);
            for (i = 0; i < GWM_THIN_ROWS; i++) room->v[warp][i][lane] = sum[i];
        }
        gw_syncthreads();
        for (i = (int32_t)gw_thread_idx(); i < GWM_THIN_ROWS * size; i += (int32_t)gw_block_dim()) {
            int32_t row = i / size, n = first + i % size;
            float all = 0;
            if (m + row >= g->m || n >= g->n) continue;
            for (w = 0; w < warps; w++) all += room->v[w][row][i % size];
            gwm_gemm_store(g, product, m + row, n, all);
        }
        gw_syncthreads(); /* all have read the room before the next sums go there */
    }
}

/* Any number of blocks, of at most GWM_THIN_WARPS whole warps, or of fewer threads than a warp has. */
GWM_KERNEL(gwm_thin_kernel, struct gwm_gemm_args, g)
{
    GW_SHARED(struct gwm_thin_room, room);
    int32_t groups = (g->m - 1) / GWM_THIN_ROWS + 1;

    if (g->bk == 1)
        GWM_BY_TYPE(g->a.type, gwm_thin_columns, g, groups);
    else
        GWM_BY_TYPE(g->a.type, gwm_thin_rows, g, groups, room);
}

GWM_INLINE void gwm_softmax_rows(const struct gwm_softmax_args *p, uint32_t type)
{
    struct gwm_view x = gwm_view_of(&p->x, type), y = gwm_view(&p->y);
    int32_t lane = (int32_t)gw_lane(), size = (int32_t)gw_warp_size(), n = p->s.n, i;
    int32_t warps = (int32_t)(gw_block_dim() + 31) / 32,
            row = (int32_t)(gw_block_idx() * (uint32_t)warps + gw_warp_idx());
    int32_t step = (int32_t)gw_grid_dim() * warps;

    for (; row < p->s.outer; row += step) { /* the same for all threads of a warp */
        float v[GWM_ROW_MAX / 32], max = -INFINITY, sum = 0;
        GWM_UNROLL
        for (i = 0; i < GWM_ROW_MAX / 32; i++) {
            v[i] = lane + i * size < n ? gwm_get(&x, row * n + lane + i * size) : -INFINITY;
            max = gwm_larger(max, v[i]);
        }
        max = gwm_over_warp(max, GWM_REDUCE_MAX);
        GWM_UNROLL
        for (i = 0; i < GWM_ROW_MAX / 32; i++) {
            v[i] -= max;
            sum += lane + i * size < n ? expf(v[i]) : 0;
        }
        sum = gwm_over_warp(sum, GWM_REDUCE_SUM);
        GWM_UNROLL
        for (i = 0; i < GWM_ROW_MAX / 32; i++)
            if (lane + i * size < n)
                gwm_set(&y, row * n + lane + i * size, p->s.log ? v[i] - logf(sum) : expf(v[i]) / sum);
    }
}

/* Rows whose elements lie together, at most GWM_ROW_MAX of them: a warp for each, which reads it once. */
GWM_KERNEL(gwm_softmax_row_kernel, struct gwm_softmax_args, p)
{
    GWM_BY_TYPE(p->x.type, gwm_softmax_rows, p);
}

/* Where the kernels for runs of n elements, n a multiple of 4, find x, scale and bias. All three have one
 * type. */
struct gwm_norm_views {
    struct gwm_view x, y, scale, bias;
};

GW_DEV struct gwm_norm_views gwm_norm_views(const struct gwm_norm_args *p, uint32_t type)
{
    struct gwm_norm_views v;

    v.x = gwm_view_of(&p->x, type), v.y = gwm_view(&p->y);
    v.scale = gwm_view_of(&p->scale, type), v.bias = gwm_view_of(&p->bias, type);
    return v;
}

GW_DEV float gwm_sum4(const struct gwm_f4 *v)
{
    return v->x + v->y + (v->z + v->w);
}

/* Takes the mean from four elements; the sum of their squares then. */
GW_DEV float gwm_center4(struct gwm_f4 *v, float mean)
{
    v->x -= mean, v->y -= mean, v->z -= mean, v->w -= mean;
    return v->x * v->x + v->y * v->y + (v->z * v->z + v->w * v->w);
}

/* Four results, number `to` and so on, numbers `at` and so on of a run: the element times `by` times its
 * scale, and its bias. */
GW_DEV void gwm_norm_store(const struct gwm_norm_args *p, const struct gwm_norm_views *all, int32_t to,
                           int32_t at, const struct gwm_f4 *v, float by)
{
    struct gwm_f4 s = gwm_get4(&all->scale, at), b = gwm_get4(&all->bias, at);

    s.x = v->x * by * s.x + b.x, s.y = v->y * by * s.y + b.y;
    s.z = v->z * by * s.z + b.z, s.w = v->w * by * s.w + b.w;
    if (p->act.kind != GWM_ACT_NONE) {
        s.x = gwm_activate_apart(p->act.kind, p->act.a, p->act.b, s.x);
        s.y = gwm_activate_apart(p->act.kind, p->act.a, p->act.b, s.y);
        s.z = gwm_activate_apart(p->act.kind, p->act.a, p->act.b, s.z);
        s.w = gwm_activate_apart(p->act.kind, p->act.a, p->act.b, s.w);
    }
    gwm_set4(&all->y, to, &s);
}

GWM_INLINE void gwm_norm_long(const struct gwm_norm_args *p, struct gwm_block_room *room, int32_t block,
                              uint32_t type)
{
    int32_t fours = p->s.n / 4, first = block * p->s.n, i;
    int32_t step = (int32_t)gw_block_dim(), tid = (int32_t)gw_thread_idx();
    struct gwm_norm_views all = gwm_norm_views(p, type);
    struct gwm_f4 v[GWM_NORM_MAX / 4];
    struct gwm_fours from;
    float mean = 0, squares = 0, by;

    from.at = first / 4 + tid, from.step = step, from.first = 0, from.end = (fours - tid + step - 1) / step;
    gwm_get_fours(&all.x, &from, GWM_NORM_MAX / 4, v);
    GWM_UNROLL
    for (i = 0; i < GWM_NORM_MAX / 4; i++) mean += gwm_sum4(&v[i]);
    mean = p->s.rms ? 0 : gwm_over_block(room, mean, GWM_REDUCE_SUM) / (float)p->s.n;
    GWM_UNROLL
    for (i = 0; i < GWM_NORM_MAX / 4; i++)
        if (tid + i * step < fours) squares += gwm_center4(&v[i], mean);
    by = 1 / sqrtf(gwm_over_block(room, squares, GWM_REDUCE_SUM) / (float)p->s.n + p->s.epsilon);
    GWM_UNROLL
    for (i = 0; i < GWM_NORM_MAX / 4; i++) {
        int32_t at = 4 * (tid + i * step);
        if (at < p->s.n) gwm_norm_store(p, &all, first + at, at, &v[i], by);
    }
}

/* A block for each run of at most GWM_NORM_MAX elements for each thread: it reads a run once. */
GWM_EACH_KERNEL(gwm_norm_row_kernel, struct gwm_norm_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    GWM_BY_TYPE(p->x.type, gwm_norm_long, p, room, block);
}

/* The sum over `lanes` neighbours of a warp, a power of two; all of them get it. */
GW_DEV float gwm_over_lanes(float v, uint32_t lanes)
{
    uint32_t step;

    for (step = lanes / 2; step > 0; step /= 2) v += gwm_shfl(v, gw_lane() ^ step);
    return v;
}

GWM_INLINE void gwm_norm_shorts(const struct gwm_norm_args *p, uint32_t type)
{
    int32_t size = gwm_norm_lanes(p->s.n), lane = (int32_t)gw_lane() % size, fours = p->s.n / 4, i;
    int32_t warps = (int32_t)(gw_block_dim() + 31) / 32, runs = 32 / size; /* of a warp */
    int32_t first = ((int32_t)gw_block_idx() * warps + (int32_t)gw_warp_idx()) * runs;
    struct gwm_norm_views all = gwm_norm_views(p, type);

    for (; first < p->s.outer;
         first += (int32_t)gw_grid_dim() * warps * runs) { /* the same for a whole warp */
        int32_t run = first + (int32_t)gw_lane() / size, mine = run < p->s.outer ? fours : 0;
        struct gwm_f4 v[GWM_SHORT_MAX / 128];
        struct gwm_fours from;
        float mean = 0, squares = 0, by;
        from.at = run * fours + lane, from.step = size, from.first = 0;
        from.end = (mine - lane + size - 1) / size;
        gwm_get_fours(&all.x, &from, GWM_SHORT_MAX / 128, v);
        GWM_UNROLL
        for (i = 0; i < GWM_SHORT_MAX / 128; i++) mean += gwm_sum4(&v[i]);
        mean = p->s.rms ? 0 : gwm_over_lanes(mean, (uint32_t)size) / (float)p->s.n;
        GWM_UNROLL
        for (i = 0; i < GWM_SHORT_MAX / 128; i++)
            if (lane + i * size < mine) squares += gwm_center4(&v[i], mean);
        by = 1 / sqrtf(gwm_over_lanes(squares, (uint32_t)size) / (float)p->s.n + p->s.epsilon);
        GWM_UNROLL
        for (i = 0; i < GWM_SHORT_MAX / 128; i++) {
            int32_t at = 4 * (lane + i * size);
            if (lane + i * size < mine) gwm_norm_store(p, &all, run * p->s.n + at, at, &v[i], by);
        }
    }
}

/* Runs of at most GWM_SHORT_MAX elements: a warp for each or for several, so that no block waits for its
 * slowest thread. Blocks are of whole warps. */
GWM_KERNEL(gwm_norm_short_kernel, struct gwm_norm_args, p)
{
    GWM_BY_TYPE(p->x.type, gwm_norm_shorts, p);
}

/* A block per run of elements. Two passes, so that what cancels in the variance has no large mean in it. */
GWM_EACH_KERNEL(gwm_norm_kernel, struct gwm_norm_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    const struct gwm_norm *s = &p->s;
    int32_t first = block * s->n, i, step = (int32_t)gw_block_dim(), tid = (int32_t)gw_thread_idx();
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y), scale = gwm_view(&p->scale),
                    bias = gwm_view(&p->bias);
    float mean = 0, squares = 0, by;

    if (!s->rms) {
        for (i = tid; i < s->n; i += step) mean += gwm_get(&x, first + i);
        mean = gwm_over_block(room, mean, GWM_REDUCE_SUM) / (float)s->n;
    }
    for (i = tid; i < s->n; i += step) {
        float v = gwm_get(&x, first + i) - mean;
        squares += v * v;
    }
    by = 1 / sqrtf(gwm_over_block(room, squares, GWM_REDUCE_SUM) / (float)s->n + s->epsilon);
    for (i = tid; i < s->n; i += step) {
        int32_t c = (first + i) / s->inner % s->channels;
        float v = (gwm_get(&x, first + i) - mean) * by * gwm_get(&scale, c) + gwm_get(&bias, c);
        gwm_set(&y, first + i, gwm_activate(&p->act, v));
    }
}

/* One element's part of a reduction; the first pass of a logarithm of a sum of powers looks for the
 * largest. */
GW_DEV float gwm_part(int32_t kind, float sum, float v)
{
    switch (kind) {
    case GWM_REDUCE_L1: return sum + fabsf(v);
    case GWM_REDUCE_L2:
    case GWM_REDUCE_SUM_SQUARE: return sum + v * v;
    default: return gwm_join(kind, sum, v);
    }
}

GW_DEV int32_t gwm_join_kind(int32_t kind)
{
    return kind == GWM_REDUCE_MAX || kind == GWM_REDUCE_MIN || kind == GWM_REDUCE_PROD ? kind
                                                                                       : GWM_REDUCE_SUM;
}

GW_DEV float gwm_reduce_start(int32_t kind)
{
    return kind == GWM_REDUCE_MAX    ? -INFINITY
           : kind == GWM_REDUCE_MIN  ? INFINITY
           : kind == GWM_REDUCE_PROD ? 1.f
                                     : 0.f;
}

/* Over the elements of one result; `from` and `step` say which of them are this thread's. NULL: all are. */
GW_DEV float gwm_reduce_one(const struct gwm_reduce *r, const struct gwm_view *x, int32_t first, int32_t from,
                            int32_t step, struct gwm_block_room *room)
{
    int32_t kind = (int32_t)r->kind, k;
    float most = 0, sum;

    if (kind == GWM_REDUCE_LOG_SUM_EXP) {
        most = -INFINITY;
        for (k = from; k < r->n; k += step) most = gwm_larger(most, gwm_get(x, first + k * r->inner));
        if (room) most = gwm_over_block(room, most, GWM_REDUCE_MAX);
        if (fabsf(most) == INFINITY) most = 0; /* infinity less infinity would be NaN */
        sum = 0;
        for (k = from; k < r->n; k += step) sum += expf(gwm_get(x, first + k * r->inner) - most);
    } else {
        sum = gwm_reduce_start(kind);
        for (k = from; k < r->n; k += step) sum = gwm_part(kind, sum, gwm_get(x, first + k * r->inner));
    }
    if (room) sum = gwm_over_block(room, sum, gwm_join_kind(kind));
    return kind == GWM_REDUCE_MEAN          ? sum / (float)r->n
           : kind == GWM_REDUCE_L2          ? sqrtf(sum)
           : kind == GWM_REDUCE_LOG_SUM_EXP ? logf(sum) + most
                                            : sum;
}

/* A block for each result. */
GWM_EACH_KERNEL(gwm_reduce_kernel, struct gwm_reduce_args, p)
{
    GW_SHARED(struct gwm_block_room, room);
    int32_t i = block, first = i / p->r.inner * p->r.n * p->r.inner + i % p->r.inner;
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    float v = gwm_reduce_one(&p->r, &x, first, (int32_t)gw_thread_idx(), (int32_t)gw_block_dim(), room);

    if (gw_thread_idx() == 0) gwm_set(&y, i, v);
}

GW_DEV int64_t gwm_reduce_ints(const struct gwm_reduce *r, const int64_t *x)
{
    uint64_t sum = r->kind == GWM_REDUCE_PROD; /* wraps around */
    int64_t most = x[0];
    int32_t k;

    for (k = 0; k < r->n; k++) {
        int64_t v = x[k * r->inner];
        switch (r->kind) {
        case GWM_REDUCE_MAX: most = v > most ? v : most; break;
        case GWM_REDUCE_MIN: most = v < most ? v : most; break;
        case GWM_REDUCE_PROD: sum *= (uint64_t)v; break;
        case GWM_REDUCE_L1: sum += v < 0 ? 0 - (uint64_t)v : (uint64_t)v; break;
        case GWM_REDUCE_SUM_SQUARE: sum += (uint64_t)v * (uint64_t)v; break;
        default: sum += (uint64_t)v; break;
        }
    }
    if (r->kind == GWM_REDUCE_MAX || r->kind == GWM_REDUCE_MIN) return most;
    return r->kind == GWM_REDUCE_MEAN ? (int64_t)sum / r->n : (int64_t)sum;
}

/* Which element is the largest, or the smallest: of equal ones the first, or the last. */
GW_DEV int64_t gwm_arg_best(const struct gwm_reduce *r, const struct gwm_view *x, int32_t first)
{
    int32_t k, at = 0, best = first;

    for (k = 1; k < r->n; k++) {
        int32_t i = first + k * r->inner;
        int less, greater;
        if (x->type == GW_DTYPE_I64) {
            const int64_t *v = (const int64_t *)x->p;
            less = v[i]<v[best], greater = v[i]> v[best];
        } else if (x->type == GW_DTYPE_F64) {
            const double *v = (const double *)x->p;
            less = v[i]<v[best], greater = v[i]> v[best];
        } else {
            float a = gwm_get(x, i), b = gwm_get(x, best);
            less = a<b, greater = a> b;
        }
        if ((r->kind == GWM_REDUCE_ARGMAX ? greater : less) || (r->last && !less && !greater)) {
            best = i;
            at = k;
        }
    }
    return at;
}

/* A thread for each result. */
GWM_KERNEL(gwm_reduce_thread_kernel, struct gwm_reduce_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, step = (int32_t)gw_global_dim(), count = p->r.outer * p->r.inner;

    for (i = (int32_t)gw_global_idx(); i < count; i += step) {
        int32_t first = i / p->r.inner * p->r.n * p->r.inner + i % p->r.inner;
        if (p->r.kind >= GWM_REDUCE_ARGMAX)
            ((int64_t *)y.p)[i] = gwm_arg_best(&p->r, &x, first);
        else if (x.type == GW_DTYPE_F64)
            ((double *)y.p)[i] =
                gwm_reduce_f64((int32_t)p->r.kind, (const double *)x.p + first, p->r.n, p->r.inner);
        else if (x.type == GW_DTYPE_I64)
            ((int64_t *)y.p)[i] = gwm_reduce_ints(&p->r, (const int64_t *)x.p + first);
        else
            gwm_set(&y, i, gwm_reduce_one(&p->r, &x, first, 0, 1, 0));
    }
}

GWM_KERNEL(gwm_cumsum_kernel, struct gwm_cumsum_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, k, step = (int32_t)gw_global_dim(), count = p->s.outer * p->s.inner;

    for (i = (int32_t)gw_global_idx(); i < count; i += step) {
        float sum = 0, before;
        double wide = 0, wide_before;
        uint64_t whole = 0, whole_before;
        for (k = 0; k < p->s.n; k++) {
            int32_t at =
                (i / p->s.inner * p->s.n + (p->s.reverse ? p->s.n - 1 - k : k)) * p->s.inner + i % p->s.inner;
            before = sum, whole_before = whole;
            if (x.type == GW_DTYPE_I64) {
                whole += ((const uint64_t *)x.p)[at];
                ((uint64_t *)y.p)[at] = p->s.exclusive ? whole_before : whole;
            } else if (x.type == GW_DTYPE_F64) {
                wide_before = wide;
                wide += ((const double *)x.p)[at];
                ((double *)y.p)[at] = p->s.exclusive ? wide_before : wide;
            } else {
                sum += gwm_get(&x, at);
                gwm_set(&y, at, p->s.exclusive ? before : sum);
            }
        }
    }
}

#endif
