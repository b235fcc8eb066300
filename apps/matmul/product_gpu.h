/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mm_tile for GPUs. The block's threads copy a panel of A and one of B into shared memory. While they
 * multiply them, the next two are on their way into registers. For fp32 each thread has a square of the tile.
 * For TF32 and fp16 each warp has corners of it, on the tensor cores.
 *
 * Blocks have MM_THREADS threads.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <nv/target>

#include "product.h"

enum {
    MM_THREADS = 256,
    MM_DEPTH = 32,  /* of a panel; beyond the matrix it is 0 */
    MM_SQUARE = 4,  /* a thread's part of the tile: MM_SQUARE × MM_SQUARE */
    MM_CORNER = 16, /* a tensor core's part: MM_CORNER × MM_CORNER; each warp has two */
    MM_PAD = 4,     /* floats at the end of a row: so the threads of a warp meet different banks */
    MM_FOURS =
        MM_TILE * MM_DEPTH / 4 / MM_THREADS, /* fours of neighbours, of a panel, that a thread copies */
};

static_assert(MM_TILE / MM_SQUARE * (MM_TILE / MM_SQUARE) == MM_THREADS, "a square for each thread");
static_assert(MM_TILE / MM_CORNER * (MM_TILE / MM_CORNER) == 2 * MM_THREADS / 32,
              "two corners for each warp");

/* Panels. A's is stored by columns for fp32, so that a thread finds its rows side by side. */
struct mm_panels {
    float a[MM_DEPTH][MM_TILE + MM_PAD];
    float b[MM_DEPTH][MM_TILE + MM_PAD];
} __attribute__((aligned(128)));

struct mm_panels_tf32 {
    float a[MM_TILE][MM_DEPTH + MM_PAD];
    float b[MM_DEPTH][MM_TILE + MM_PAD];
} __attribute__((aligned(128)));

struct mm_panels_half {
    __half a[MM_TILE][MM_DEPTH + 2 * MM_PAD];
    __half b[MM_DEPTH][MM_TILE + 2 * MM_PAD];
} __attribute__((aligned(128)));

union mm_room {
    struct mm_panels f;
    struct mm_panels_tf32 t;
    struct mm_panels_half h;
};

/* Where a tile is. */
struct mm_place {
    uint32_t i0, j0;
};

/* ---- panels on their way ------------------------------------------------------------------------------- */

/* This thread's part of the next panels. Of halves only x and y of each four are used. */
struct mm_next {
    float4 a[MM_FOURS], b[MM_FOURS];
};

/* Where its fours lie: A's panel has rows of MM_DEPTH, B's of MM_TILE. */
static __device__ inline void mm_a_at(uint32_t u, uint32_t *i, uint32_t *k)
{
    uint32_t four = u * MM_THREADS + gw_thread_idx();

    *i = four / (MM_DEPTH / 4);
    *k = four % (MM_DEPTH / 4) * 4;
}

static __device__ inline void mm_b_at(uint32_t u, uint32_t *k, uint32_t *j)
{
    uint32_t four = u * MM_THREADS + gw_thread_idx();

    *k = four / (MM_TILE / 4);
    *j = four % (MM_TILE / 4) * 4;
}

/* Four elements of a factor from row i, column j on; 0 beyond the matrix, whose n is a multiple of 16. */
static __device__ __forceinline__ float4 mm_four(const void *m, uint32_t n, uint32_t i, uint32_t j, bool half)
{
    if (i >= n || j >= n) return make_float4(0, 0, 0, 0);
    if (half) {
        float2 f = *(const float2 *)((const __half *)m + (uint64_t)i * n + j);

        return make_float4(f.x, f.y, 0, 0);
    }
    return *(const float4 *)((const float *)m + (uint64_t)i * n + j);
}

/* Fetches them from column k0 of A and row k0 of B on. `half`: the factors are fp16. */
static __device__ __forceinline__ void mm_fetch(struct mm_next *v, const struct mm_product *p,
                                                struct mm_place at, uint32_t k0, bool half)
{
    uint32_t i, j, k;

#pragma unroll
    for (uint32_t u = 0; u < MM_FOURS; u++) {
        mm_a_at(u, &i, &k);
        v->a[u] = mm_four(p->a, p->n, at.i0 + i, k0 + k, half);
        mm_b_at(u, &k, &j);
        v->b[u] = mm_four(p->b, p->n, k0 + k, at.j0 + j, half);
    }
}

/* ---- fp32 --------------------------------------------------------------------------------------------- */

static __device__ inline void mm_put_fp32(struct mm_panels *r, const struct mm_next *v)
{
    uint32_t i, j, k;

#pragma unroll
    for (uint32_t u = 0; u < MM_FOURS; u++) {
        mm_a_at(u, &i, &k);
        r->a[k][i] = v->a[u].x;
        r->a[k + 1][i] = v->a[u].y;
        r->a[k + 2][i] = v->a[u].z;
        r->a[k + 3][i] = v->a[u].w;
        mm_b_at(u, &k, &j);
        *(float4 *)&r->b[k][j] = v->b[u];
    }
}

/* A thread's square, whose corner is at row i, column j of the tile. */
static __device__ inline void mm_square(const struct mm_panels *r, float sum[MM_SQUARE][MM_SQUARE],
                                        uint32_t i, uint32_t j)
{
#pragma unroll
    for (uint32_t k = 0; k < MM_DEPTH; k++) {
        float4 a = *(const float4 *)&r->a[k][i], b = *(const float4 *)&r->b[k][j];
        float x[MM_SQUARE] = {a.x, a.y, a.z, a.w}, y[MM_SQUARE] = {b.x, b.y, b.z, b.w};

#pragma unroll
        for (uint32_t u = 0; u < MM_SQUARE; u++)
#pragma unroll
            for (uint32_t v = 0; v < MM_SQUARE; v++) sum[u][v] += x[u] * y[v];
    }
}

static __device__ __noinline__ void mm_tile_fp32(struct mm_panels *r, const struct mm_product *product,
                                                 struct mm_place at)
{
    const uint32_t across = MM_TILE / MM_SQUARE;
    uint32_t i = gw_thread_idx() / across * MM_SQUARE, j = gw_thread_idx() % across * MM_SQUARE;
    float sum[MM_SQUARE][MM_SQUARE] = {};
    struct mm_product p = *product;
    struct mm_next next;

    mm_fetch(&next, &p, at, 0, false);
    for (uint32_t k0 = 0; k0 < p.n; k0 += MM_DEPTH) {
        mm_put_fp32(r, &next);
        gw_syncthreads();
        mm_fetch(&next, &p, at, k0 + MM_DEPTH, false);
        mm_square(r, sum, i, j);
        gw_syncthreads(); /* all are done with these panels */
    }
    if (at.i0 + i >= p.n || at.j0 + j >= p.n) return;
    for (uint32_t u = 0; u < MM_SQUARE; u++)
        *(float4 *)(p.c + (uint64_t)(at.i0 + i + u) * p.n + at.j0 + j) =
            make_float4(sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
}

/* ---- tensor cores ------------------------------------------------------------------------------------- */

using namespace nvcuda;

/* Where the warp's two corners are in the tile. */
static __device__ inline void mm_corner(uint32_t which, uint32_t *i, uint32_t *j)
{
    const uint32_t across = MM_TILE / MM_CORNER;
    uint32_t corner = which * (MM_THREADS / 32) + gw_warp_idx();

    *i = corner / across * MM_CORNER;
    *j = corner % across * MM_CORNER;
}

static __device__ __forceinline__ void mm_put_tensor(union mm_room *r, const struct mm_next *v, bool half)
{
    uint32_t i, j, k;

#pragma unroll
    for (uint32_t u = 0; u < MM_FOURS; u++) {
        mm_a_at(u, &i, &k);
        if (half)
            *(float2 *)&r->h.a[i][k] = make_float2(v->a[u].x, v->a[u].y);
        else
            *(float4 *)&r->t.a[i][k] = v->a[u];
        mm_b_at(u, &k, &j);
        if (half)
            *(float2 *)&r->h.b[k][j] = make_float2(v->b[u].x, v->b[u].y);
        else
            *(float4 *)&r->t.b[k][j] = v->b[u];
    }
}

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> mm_sum_half;

/* sum += the part of a corner that these panels have. */
static __device__ inline void mm_multiply_half(const struct mm_panels_half *r, mm_sum_half &sum, uint32_t i,
                                               uint32_t j)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;

#pragma unroll
    for (uint32_t k = 0; k < MM_DEPTH; k += 16) {
        wmma::load_matrix_sync(a, &r->a[i][k], MM_DEPTH + 2 * MM_PAD);
        wmma::load_matrix_sync(b, &r->b[k][j], MM_TILE + 2 * MM_PAD);
        wmma::mma_sync(sum, a, b, sum);
    }
}

static __device__ __attribute__((unused)) inline uint32_t mm_to_tf32(float f)
{
    uint32_t bits = 0;

    NV_IF_TARGET(NV_PROVIDES_SM_80, (asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(f));))
    return bits;
}

/*
 * d += 16 × 8 of A times 8 × 8 of B. Lane 4 g + t holds four elements of A: columns t and t + 4 of rows g and
 * g + 8. It holds two of B: rows t and t + 4 of column g. It holds four of d: columns 2 t and 2 t + 1 of rows
 * g and g + 8.
 */
static __device__ __attribute__((unused)) inline void mm_mma_tf32(float d[4], const uint32_t a[4],
                                                                  const uint32_t b[2])
{
    NV_IF_TARGET(
        NV_PROVIDES_SM_80,
        (asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
             "{%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));))
}

/* The same for TF32, in two halves of the corner. */
static __device__ __attribute__((unused)) inline void mm_multiply_tf32(const struct mm_panels_tf32 *r,
                                                                       float sum[8], uint32_t i, uint32_t j)
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4, a[4], b[2];

    for (uint32_t k = 0; k < MM_DEPTH; k += 8) {
        for (uint32_t u = 0; u < 4; u++) a[u] = mm_to_tf32(r->a[i + g + u % 2 * 8][k + t + u / 2 * 4]);
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t u = 0; u < 2; u++) b[u] = mm_to_tf32(r->b[k + t + 4 * u][j + 8 * half + g]);
            mm_mma_tf32(sum + 4 * half, a, b);
        }
    }
}

static __device__ inline void mm_store_tf32(const struct mm_product *p, const float sum[8], uint32_t i,
                                            uint32_t j)
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4;

    for (uint32_t u = 0; u < 8; u++)
        p->c[(uint64_t)(i + g + u / 2 % 2 * 8) * p->n + j + u / 4 * 8 + 2 * t + u % 2] = sum[u];
}

/* The sums of a warp's two corners: of one type. */
struct mm_sums {
    mm_sum_half half[2];
    float tf32[2][8];
};

static __device__ __forceinline__ void mm_tile_tensor(union mm_room *r, const struct mm_product *product,
                                                      struct mm_place at, bool half)
{
    struct mm_product p = *product;
    struct mm_next next;
    struct mm_sums sum = {};
    uint32_t i, j;

    for (uint32_t which = 0; which < 2 && half; which++) wmma::fill_fragment(sum.half[which], 0.0f);
    mm_fetch(&next, &p, at, 0, half);
    for (uint32_t k0 = 0; k0 < p.n; k0 += MM_DEPTH) {
        mm_put_tensor(r, &next, half);
        gw_syncthreads();
        mm_fetch(&next, &p, at, k0 + MM_DEPTH, half);
#pragma unroll
        for (uint32_t which = 0; which < 2; which++) {
            mm_corner(which, &i, &j);
            if (half)
                mm_multiply_half(&r->h, sum.half[which], i, j);
            else
                mm_multiply_tf32(&r->t, sum.tf32[which], i, j);
        }
        gw_syncthreads(); /* all are done with these panels */
    }
#pragma unroll
    for (uint32_t which = 0; which < 2; which++) {
        mm_corner(which, &i, &j);
        if (at.i0 + i >= p.n || at.j0 + j >= p.n) continue;
        if (half)
            wmma::store_matrix_sync(p.c + (uint64_t)(at.i0 + i) * p.n + at.j0 + j, sum.half[which], p.n,
                                    wmma::mem_row_major);
        else
            mm_store_tf32(&p, sum.tf32[which], at.i0 + i, at.j0 + j);
    }
}

/* Each is a function of its own, whose type the compiler knows. */
static __device__ __noinline__ void mm_tile_half(union mm_room *r, const struct mm_product *p,
                                                 struct mm_place at)
{
    mm_tile_tensor(r, p, at, true);
}

static __device__ __attribute__((unused)) __noinline__ void
mm_tile_tf32(union mm_room *r, const struct mm_product *p, struct mm_place at)
{
    mm_tile_tensor(r, p, at, false);
}

/* ---- all ---------------------------------------------------------------------------------------------- */

GW_DEV void mm_tile(const struct mm_product *p, uint32_t tile)
{
    GW_SHARED(union mm_room, r);
    uint32_t across = (p->n + MM_TILE - 1) / MM_TILE;
    struct mm_place at = {tile / across * MM_TILE, tile % across * MM_TILE};

    gw_syncthreads();
    if (p->type == MM_FP16) {
        mm_tile_half(r, p, at);
    } else if (p->type == MM_FP32) {
        mm_tile_fp32(&r->f, p, at);
    } else {
        /* GPUs before sm_80 have no TF32: they are more exact. */
        NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80, (mm_tile_tf32(r, p, at);), (mm_tile_fp32(&r->f, p, at);))
    }
    gw_syncthreads(); /* C is complete, and the room is free */
}
