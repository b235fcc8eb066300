/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on tensor cores: fp16 factors, sums and softmax in fp32. A warp has 16 rows of Q and keeps their
 * results in registers. The block brings 64 keys and values at a time to shared memory. When a larger
 * score turns up, the warp scales what it has summed up. So it never stores a row of scores.
 *
 * In a fragment, lane 4 g + t holds columns 2 t and 2 t + 1 (and eight further on) of rows g and g + 8.
 */
#include <nv/target>

#include "src/model/kernels_attention.h"

#define KEYS 64

template <int SIZE> struct gwm_attention_room { /* rows are padded, so that eight of them meet all banks */
    uint16_t k[KEYS][SIZE + 8], v[KEYS][SIZE + 8];
} __attribute__((aligned(16)));

struct state {
    float most[2], all[2]; /* of rows g and g + 8; `all` of this lane's columns alone */
};

static __device__ inline uint32_t pair(float a, float b)
{
    return gwm_half_put(a) | (uint32_t)gwm_half_put(b) << 16;
}

/* d += a b: 16 × 8 += 16 × 16 times 16 × 8. */
static __device__ inline void multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_80,
        (asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
             "{%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));),
        (asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(a[0]), "r"(a[1]), "r"(b0));
         asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(a[2]), "r"(a[3]), "r"(b1));))
}

/* Four 8 × 8 matrices; each eight lanes name the rows of one. */
static __device__ inline void load4(uint32_t r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ inline void load4_turned(uint32_t r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ inline float over_four(float v, bool most)
{
    for (int step = 1; step < 4; step *= 2) {
        float other = __shfl_xor_sync(0xffffffff, v, step);
        v = most ? fmaxf(v, other) : v + other;
    }
    return v;
}

/* Keys and values from number `first` on; zeros where there are none. */
template <int SIZE>
static __device__ inline void fetch(const gwm_attention_args *a, const uint16_t *k, const uint16_t *v,
                                    int32_t first, gwm_attention_room<SIZE> *room)
{
    for (int32_t i = (int32_t)threadIdx.x; i < KEYS * (SIZE / 8); i += (int32_t)blockDim.x) {
        int32_t row = i / (SIZE / 8), col = i % (SIZE / 8) * 8;
        uint4 kk = make_uint4(0, 0, 0, 0), vv = kk;
        if (first + row < a->keys) {
            kk = *(const uint4 *)(k + (first + row) * a->k_at.row + col);
            vv = *(const uint4 *)(v + (first + row) * a->v_at.row + col);
        }
        *(uint4 *)&room->k[row][col] = kk;
        *(uint4 *)&room->v[row][col] = vv;
    }
}

/* Scores of the keys in the room, times log2(e): then weights are powers of two. */
template <int SIZE>
static __device__ inline void score(const gwm_attention_args *a, const uint32_t (*q)[4], int32_t first,
                                    const gwm_attention_room<SIZE> *room, float s[KEYS / 8][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
    for (int n = 0; n < KEYS / 8; n += 2) {
#pragma unroll
        for (int e = 0; e < 4; e++) s[n][e] = s[n + 1][e] = 0;
#pragma unroll
        for (int i = 0; i < SIZE / 16; i++) {
            uint32_t b[4];
            load4(b, &room->k[n * 8 + lane / 16 * 8 + lane % 8][i * 16 + lane / 8 % 2 * 8]);
            multiply(s[n], q[i], b[0], b[1]);
            multiply(s[n + 1], q[i], b[2], b[3]);
        }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int32_t key = first + n * 8 + lane % 4 * 2 + e % 2;
            s[n][e] = key < a->keys ? s[n][e] * (a->scale * 1.44269504f) : -INFINITY;
        }
    }
}

/* Scores become weights; what was summed up so far is scaled to the largest score known now. */
template <int SIZE>
static __device__ inline void weigh(float s[KEYS / 8][4], struct state *st, float o[SIZE / 8][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = st->most[r], scaled;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) most = fmaxf(most, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        most = over_four(most, true);
        scaled = exp2f(st->most[r] - most);
        st->most[r] = most;
        st->all[r] *= scaled;
#pragma unroll
        for (int n = 0; n < SIZE / 8; n++) o[n][2 * r] *= scaled, o[n][2 * r + 1] *= scaled;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            s[n][2 * r] = exp2f(s[n][2 * r] - most), s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] - most);
            st->all[r] += s[n][2 * r] + s[n][2 * r + 1];
        }
    }
}

template <int SIZE>
static __device__ inline void add_values(const float s[KEYS / 8][4], const gwm_attention_room<SIZE> *room,
                                         float o[SIZE / 8][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) {
        const float *u = s[2 * i], *w = s[2 * i + 1];
        const uint32_t p[4] = {pair(u[0], u[1]), pair(u[2], u[3]), pair(w[0], w[1]), pair(w[2], w[3])};
#pragma unroll
        for (int n = 0; n < SIZE / 8; n += 2) {
            uint32_t b[4];
            load4_turned(b, &room->v[i * 16 + lane % 16][n * 8 + lane / 16 * 8]);
            multiply(o[n], p, b[0], b[1]);
            multiply(o[n + 1], p, b[2], b[3]);
        }
    }
}

/* A warp's results: rows `first` + g and eight further on. */
template <int SIZE>
static __device__ inline void store(const gwm_attention_args *a, int32_t to, int32_t first, struct state *st,
                                    float o[SIZE / 8][4])
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    struct gwm_view y = gwm_view(&a->y);

#pragma unroll
    for (int r = 0; r < 2; r++) {
        int32_t row = first + lane / 4 + 8 * r;
        float by = a->by / over_four(st->all[r], false);
        if (row >= a->queries) continue;
#pragma unroll
        for (int n = 0; n < SIZE / 8; n++) {
            int32_t at = to + row * a->y_at.row + n * 8 + lane % 4 * 2;
            float u = o[n][2 * r] * by, w = o[n][2 * r + 1] * by;
            if (y.type == GW_DTYPE_F16)
                *(uint32_t *)((uint16_t *)y.p + at) = pair(u, w);
            else
                ((float *)y.p)[at] = u, ((float *)y.p)[at + 1] = w;
        }
    }
}

template <int SIZE> static __device__ inline void attend(const gwm_attention_args *a)
{
    GW_SHARED(gwm_attention_room<SIZE>, room);
    int32_t tiles = (a->queries - 1) / a->rows + 1, product = (int32_t)blockIdx.x / tiles;
    int32_t lane = (int32_t)threadIdx.x % 32;
    int32_t first = (int32_t)blockIdx.x % tiles * a->rows + (int32_t)threadIdx.x / 32 * 16;
    const uint16_t *q = (const uint16_t *)gwm_address(&a->q) + gwm_lines_start(&a->q_at, product, a->heads);
    const uint16_t *k = (const uint16_t *)gwm_address(&a->k) + gwm_lines_start(&a->k_at, product, a->heads);
    const uint16_t *v = (const uint16_t *)gwm_address(&a->v) + gwm_lines_start(&a->v_at, product, a->heads);
    struct state st = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[SIZE / 8][4] = {}, s[KEYS / 8][4];
    uint32_t fq[SIZE / 16][4];

#pragma unroll
    for (int i = 0; i < SIZE / 16; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) { /* rows behind the last are read as the last, and not stored */
            int32_t row = min(first + lane / 4 + e % 2 * 8, a->queries - 1);
            fq[i][e] = *(const uint32_t *)(q + row * a->q_at.row + i * 16 + e / 2 * 8 + lane % 4 * 2);
        }
    }
    for (int32_t key = 0; key < a->keys; key += KEYS) {
        __syncthreads(); /* all have used the keys before */
        fetch<SIZE>(a, k, v, key, room);
        __syncthreads();
        score<SIZE>(a, fq, key, room, s);
        weigh<SIZE>(s, &st, o);
        add_values<SIZE>(s, room, o);
    }
    store<SIZE>(a, gwm_lines_start(&a->y_at, product, a->heads), first, &st, o);
}

#define GWM_ATTEND(size) attend<size>
GWM_ATTENTIONS
