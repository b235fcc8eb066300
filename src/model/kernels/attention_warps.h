/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on tensor cores: sums and softmax are fp32. A warp has 16 rows of Q and keeps their results in
 * registers. The block brings some keys and values at a time to shared memory. When a larger score turns
 * up, the warp scales what it has summed up. So it never stores a row of scores.
 *
 * A WAY is a class that knows the factors. There is one for each type of element and size of a head. SIZE
 * is that size, and KEYS says how many keys it takes at a time. The type `element` is that of elements in
 * memory, and `room` holds keys and values in shared memory. The function take_q brings Q to registers,
 * four for each of PIECES. The function place puts a part of a row of keys, and of values, into the room.
 * The function score multiplies Q and the keys. The function add_values adds what the weights take of the
 * values.
 *
 * Of 16 × 8 results, lane 4 g + t holds four: columns 2 t and 2 t + 1 of rows g and g + 8.
 */
#ifndef GW_MODEL_ATTENTION_WARPS_H
#define GW_MODEL_ATTENTION_WARPS_H

#include <nv/target>

#include "src/model/kernels/device.h"

struct state {
    float most[2], all[2]; /* of rows g and g + 8; `all` of this lane's columns alone */
};

static __device__ inline float over_four(float v, bool most)
{
    for (int step = 1; step < 4; step *= 2) {
        float other = __shfl_xor_sync(0xffffffff, v, step);
        v = most ? gwm_larger(v, other) : v + other;
    }
    return v;
}

/* Keys and values from number `first` on; zeros where there are none. */
template <class WAY>
static __device__ inline void
attention_warps_fetch(const gwm_attention_args *a, const typename WAY::element *k,
                      const typename WAY::element *v, int32_t first, typename WAY::room *room)
{
    const int32_t each = 16 / (int32_t)sizeof(*k), parts = WAY::SIZE / each; /* 16 bytes at a time */

    for (int32_t i = (int32_t)threadIdx.x; i < WAY::KEYS * parts; i += (int32_t)blockDim.x) {
        int32_t row = i / parts, col = i % parts * each;
        uint4 kk = make_uint4(0, 0, 0, 0), vv = kk;
        if (first + row < a->keys) {
            kk = *(const uint4 *)(k + (first + row) * a->k_at.row + col);
            vv = *(const uint4 *)(v + (first + row) * a->v_at.row + col);
        }
        WAY::place(room, row, col, kk, vv);
    }
}

/* Products become scores, times log2(e): then weights are powers of two. There are none past the last key. */
template <class WAY>
static __device__ inline void scale(const gwm_attention_args *a, int32_t first, float s[WAY::KEYS / 8][4])
{
#pragma unroll
    for (int n = 0; n < WAY::KEYS / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int32_t key = first + n * 8 + (int32_t)threadIdx.x % 4 * 2 + e % 2;
            s[n][e] = key < a->keys ? s[n][e] * (a->scale * 1.44269504f) : -INFINITY;
        }
    }
}

/* Scores become weights; what was summed up so far is scaled to the largest score known now. */
template <class WAY>
static __device__ inline void weigh(float s[WAY::KEYS / 8][4], struct state *st, float o[WAY::SIZE / 8][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = st->most[r], scaled;
#pragma unroll
        for (int n = 0; n < WAY::KEYS / 8; n++)
            most = gwm_larger(most, gwm_larger(s[n][2 * r], s[n][2 * r + 1]));
        most = over_four(most, true);
        scaled = exp2f(st->most[r] - most);
        st->most[r] = most;
        st->all[r] *= scaled;
#pragma unroll
        for (int n = 0; n < WAY::SIZE / 8; n++) o[n][2 * r] *= scaled, o[n][2 * r + 1] *= scaled;
#pragma unroll
        for (int n = 0; n < WAY::KEYS / 8; n++) {
            s[n][2 * r] = exp2f(s[n][2 * r] - most), s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] - most);
            st->all[r] += s[n][2 * r] + s[n][2 * r + 1];
        }
    }
}

/* A warp's results: rows `first` + g and eight further on. */
template <class WAY>
static __device__ inline void attention_warps_store(const gwm_attention_args *a, int32_t to, int32_t first,
                                                    struct state *st, float o[WAY::SIZE / 8][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    struct gwm_view y = gwm_view(&a->y);

#pragma unroll
    for (int r = 0; r < 2; r++) {
        int32_t row = first + lane / 4 + 8 * r;
        float by = a->by / over_four(st->all[r], false);
        if (row >= a->queries) continue;
#pragma unroll
        for (int n = 0; n < WAY::SIZE / 8; n++) {
            int32_t at = to + row * a->y_at.row + n * 8 + lane % 4 * 2;
            float u = o[n][2 * r] * by, w = o[n][2 * r + 1] * by;
            if (y.type == GW_DTYPE_F16)
                *(uint32_t *)((uint16_t *)y.p + at) = gwm_half_put2(u, w);
            else
                ((float *)y.p)[at] = u, ((float *)y.p)[at + 1] = w;
        }
    }
}

template <class WAY> static __device__ inline void attend(const gwm_attention_args *a)
{
    typedef typename WAY::room shared_room;
    typedef const typename WAY::element *elements;
    GW_SHARED(shared_room, room);
    int32_t tiles = (a->queries - 1) / a->rows + 1, product = (int32_t)blockIdx.x / tiles;
    int32_t first = (int32_t)blockIdx.x % tiles * a->rows + (int32_t)threadIdx.x / 32 * 16;
    elements q = (elements)gwm_address(&a->q) + gwm_lines_start(&a->q_at, product, a->heads);
    elements k = (elements)gwm_address(&a->k) + gwm_lines_start(&a->k_at, product, a->heads);
    elements v = (elements)gwm_address(&a->v) + gwm_lines_start(&a->v_at, product, a->heads);
    struct state st = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[WAY::SIZE / 8][4] = {}, s[WAY::KEYS / 8][4];
    uint32_t fq[WAY::PIECES][4];

    WAY::take_q(a, q, first, fq);
    for (int32_t key = 0; key < a->keys; key += WAY::KEYS) {
        __syncthreads(); /* all have used the keys before */
        attention_warps_fetch<WAY>(a, k, v, key, room);
        __syncthreads(); /* all of it is there before a warp reads what others brought */
        WAY::score(fq, room, s);
        scale<WAY>(a, key, s);
        weigh<WAY>(s, &st, o);
        WAY::add_values(s, room, o);
    }
    attention_warps_store<WAY>(a, gwm_lines_start(&a->y_at, product, a->heads), first, &st, o);
}

#endif
