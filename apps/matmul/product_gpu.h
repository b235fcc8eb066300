/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mm_tile for GPUs. The block's threads copy a panel of A and one of B into shared memory, and multiply them.
 * For fp32 each thread has a square of the tile. For TF32 and fp16 each warp has corners of it, on the tensor
 * cores.
 *
 * Blocks must have whole warps. 256 threads, 8 warps, are the expected size.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <nv/target>

#include "product.h"

enum {
    MM_DEPTH = 16,  /* of a panel */
    MM_SQUARE = 4,  /* a thread's part of the tile: MM_SQUARE × MM_SQUARE */
    MM_CORNER = 16, /* a tensor core's part: MM_CORNER × MM_CORNER */
    MM_PAD = 4,     /* floats at the end of a row: so the threads of a warp meet different banks */
};

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

/* ---- panels ------------------------------------------------------------------------------------------- */

/* Four floats of a factor from row i, column j on; 0 beyond the matrix, whose n is a multiple of 16. */
static __device__ inline float4 mm_four(const float *m, uint32_t n, uint32_t i, uint32_t j)
{
    if (i >= n || j >= n) return make_float4(0, 0, 0, 0);
    return *(const float4 *)(m + (uint64_t)i * n + j);
}

static __device__ inline uint2 mm_four_half(const __half *m, uint32_t n, uint32_t i, uint32_t j)
{
    if (i >= n || j >= n) return make_uint2(0, 0);
    return *(const uint2 *)(m + (uint64_t)i * n + j);
}

enum { MM_A_FOURS = MM_TILE * MM_DEPTH / 4, MM_B_FOURS = MM_TILE * MM_DEPTH / 4 };

/* This is where the fours of a panel of A and of B lie: A's by rows of MM_DEPTH, B's by rows of MM_TILE. */
static __device__ inline void mm_a_at(uint32_t four, uint32_t *i, uint32_t *k)
{
    *i = four / (MM_DEPTH / 4);
    *k = four % (MM_DEPTH / 4) * 4;
}

static __device__ inline void mm_b_at(uint32_t four, uint32_t *k, uint32_t *j)
{
    *k = four / (MM_TILE / 4);
    *j = four % (MM_TILE / 4) * 4;
}

/* ---- fp32 --------------------------------------------------------------------------------------------- */

static __device__ inline void mm_load_fp32(struct mm_panels *r, const struct mm_product *p,
                                           struct mm_place at, uint32_t k0)
{
    const float *a = (const float *)p->a, *b = (const float *)p->b;
    uint32_t i, j, k;
    float4 v;

    for (uint32_t four = gw_thread_idx(); four < MM_A_FOURS; four += gw_block_dim()) {
        mm_a_at(four, &i, &k);
        v = mm_four(a, p->n, at.i0 + i, k0 + k);
        r->a[k][i] = v.x;
        r->a[k + 1][i] = v.y;
        r->a[k + 2][i] = v.z;
        r->a[k + 3][i] = v.w;
    }
    for (uint32_t four = gw_thread_idx(); four < MM_B_FOURS; four += gw_block_dim()) {
        mm_b_at(four, &k, &j);
        *(float4 *)&r->b[k][j] = mm_four(b, p->n, k0 + k, at.j0 + j);
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

static __device__ __noinline__ void mm_tile_fp32(struct mm_panels *r, const struct mm_product *p,
                                                 struct mm_place at)
{
    const uint32_t across = MM_TILE / MM_SQUARE;

    /* Squares that have no thread of their own come in a later round. */
    for (uint32_t first = 0; first < across * across; first += gw_block_dim()) {
        uint32_t square = first + gw_thread_idx(), i = square / across * MM_SQUARE,
                 j = square % across * MM_SQUARE;
        float sum[MM_SQUARE][MM_SQUARE] = {};

        for (uint32_t k0 = 0; k0 < p->n; k0 += MM_DEPTH) {
            mm_load_fp32(r, p, at, k0);
            gw_syncthreads();
            if (square < across * across) mm_square(r, sum, i, j);
            gw_syncthreads(); /* all are done with this panel */
        }
        if (square >= across * across || at.i0 + i >= p->n || at.j0 + j >= p->n) continue;
        for (uint32_t u = 0; u < MM_SQUARE; u++)
            *(float4 *)(p->c + (uint64_t)(at.i0 + i + u) * p->n + at.j0 + j) =
                make_float4(sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
    }
}

/* ---- tensor cores ------------------------------------------------------------------------------------- */

using namespace nvcuda;

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> mm_sum_half;

static __device__ inline void mm_load_half(struct mm_panels_half *r, const struct mm_product *p,
                                           struct mm_place at, uint32_t k0)
{
    const __half *a = (const __half *)p->a, *b = (const __half *)p->b;
    uint32_t i, j, k;

    for (uint32_t four = gw_thread_idx(); four < MM_A_FOURS; four += gw_block_dim()) {
        mm_a_at(four, &i, &k);
        *(uint2 *)&r->a[i][k] = mm_four_half(a, p->n, at.i0 + i, k0 + k);
    }
    for (uint32_t four = gw_thread_idx(); four < MM_B_FOURS; four += gw_block_dim()) {
        mm_b_at(four, &k, &j);
        *(uint2 *)&r->b[k][j] = mm_four_half(b, p->n, k0 + k, at.j0 + j);
    }
}

/* Where a warp's corner is in the tile, in round `first`; each warp has two of them. No: there is none. */
static __device__ inline bool mm_corner(uint32_t first, uint32_t which, uint32_t *i, uint32_t *j)
{
    const uint32_t across = MM_TILE / MM_CORNER;
    uint32_t corner = first + which * (gw_block_dim() / 32) + gw_warp_idx();

    *i = corner / across * MM_CORNER;
    *j = corner % across * MM_CORNER;
    return corner < across * across;
}

enum { MM_CORNERS = (MM_TILE / MM_CORNER) * (MM_TILE / MM_CORNER) };

/* Corners go to the warps in turn. A block of 8 warps has them all in one round. */
static __device__ __noinline__ void mm_tile_half(struct mm_panels_half *r, const struct mm_product *p,
                                                 struct mm_place at)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
    uint32_t i, j;

    for (uint32_t first = 0; first < MM_CORNERS; first += 2 * (gw_block_dim() / 32)) {
        mm_sum_half sum[2];

        wmma::fill_fragment(sum[0], 0.0f);
        wmma::fill_fragment(sum[1], 0.0f);
        for (uint32_t k0 = 0; k0 < p->n; k0 += MM_DEPTH) {
            mm_load_half(r, p, at, k0);
            gw_syncthreads();
#pragma unroll
            for (uint32_t which = 0; which < 2; which++) {
                if (!mm_corner(first, which, &i, &j)) continue;
                wmma::load_matrix_sync(a, &r->a[i][0], MM_DEPTH + 2 * MM_PAD);
                wmma::load_matrix_sync(b, &r->b[0][j], MM_TILE + 2 * MM_PAD);
                wmma::mma_sync(sum[which], a, b, sum[which]);
            }
            gw_syncthreads(); /* all are done with this panel */
        }
#pragma unroll
        for (uint32_t which = 0; which < 2; which++)
            if (mm_corner(first, which, &i, &j) && at.i0 + i < p->n && at.j0 + j < p->n)
                wmma::store_matrix_sync(p->c + (uint64_t)(at.i0 + i) * p->n + at.j0 + j, sum[which], p->n,
                                        wmma::mem_row_major);
    }
}

static __device__ inline void mm_load_tf32(struct mm_panels_tf32 *r, const struct mm_product *p,
                                           struct mm_place at, uint32_t k0)
{
    const float *a = (const float *)p->a, *b = (const float *)p->b;
    uint32_t i, j, k;

    for (uint32_t four = gw_thread_idx(); four < MM_A_FOURS; four += gw_block_dim()) {
        mm_a_at(four, &i, &k);
        *(float4 *)&r->a[i][k] = mm_four(a, p->n, at.i0 + i, k0 + k);
    }
    for (uint32_t four = gw_thread_idx(); four < MM_B_FOURS; four += gw_block_dim()) {
        mm_b_at(four, &k, &j);
        *(float4 *)&r->b[k][j] = mm_four(b, p->n, k0 + k, at.j0 + j);
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

/* sum += a corner, from column k of the panel of A on, in two halves. */
static __device__ __attribute__((unused)) inline void
mm_multiply_tf32(const struct mm_panels_tf32 *r, float sum[8], uint32_t i, uint32_t j, uint32_t k)
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4, a[4], b[2];

    for (uint32_t u = 0; u < 4; u++) a[u] = mm_to_tf32(r->a[i + g + u % 2 * 8][k + t + u / 2 * 4]);
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t u = 0; u < 2; u++) b[u] = mm_to_tf32(r->b[k + t + 4 * u][j + 8 * half + g]);
        mm_mma_tf32(sum + 4 * half, a, b);
    }
}

static __device__ inline void mm_store_tf32(const struct mm_product *p, const float sum[8], uint32_t i,
                                            uint32_t j)
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4;

    for (uint32_t u = 0; u < 8; u++)
        p->c[(uint64_t)(i + g + u / 2 % 2 * 8) * p->n + j + u / 4 * 8 + 2 * t + u % 2] = sum[u];
}

static __device__ __attribute__((unused)) __noinline__ void
mm_tile_tf32(struct mm_panels_tf32 *r, const struct mm_product *p, struct mm_place at)
{
    uint32_t i, j;

    for (uint32_t first = 0; first < MM_CORNERS; first += 2 * (gw_block_dim() / 32)) {
        float sum[2][8] = {};

        for (uint32_t k0 = 0; k0 < p->n; k0 += MM_DEPTH) {
            mm_load_tf32(r, p, at, k0);
            gw_syncthreads();
#pragma unroll
            for (uint32_t which = 0; which < 2; which++)
                for (uint32_t k = 0; k < MM_DEPTH; k += 8)
                    if (mm_corner(first, which, &i, &j)) mm_multiply_tf32(r, sum[which], i, j, k);
            gw_syncthreads(); /* all are done with this panel */
        }
#pragma unroll
        for (uint32_t which = 0; which < 2; which++)
            if (mm_corner(first, which, &i, &j) && at.i0 + i < p->n && at.j0 + j < p->n)
                mm_store_tf32(p, sum[which], at.i0 + i, at.j0 + j);
    }
}

/* ---- all ---------------------------------------------------------------------------------------------- */

GW_DEV void mm_tile(const struct mm_product *p, uint32_t tile)
{
    GW_SHARED(union mm_room, r);
    uint32_t across = (p->n + MM_TILE - 1) / MM_TILE;
    struct mm_place at = {tile / across * MM_TILE, tile % across * MM_TILE};

    gw_syncthreads();
    if (p->type == MM_FP16) {
        mm_tile_half(&r->h, p, at);
    } else if (p->type == MM_FP32) {
        mm_tile_fp32(&r->f, p, at);
    } else {
        /* GPUs before sm_80 have no TF32: they are more exact. */
        NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80, (mm_tile_tf32(&r->t, p, at);), (mm_tile_fp32(&r->f, p, at);))
    }
    gw_syncthreads(); /* C is complete, and the room is free */
}
