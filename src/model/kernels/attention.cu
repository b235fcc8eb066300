/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with fp16 factors. Of their 16 × 16 elements, lane 4 g + t holds eight. They lie in rows g and
 * g + 8, in columns 2 t and 2 t + 1, and eight further on. */
#include "src/model/kernels/attention.h"

/* d += a b: 16 × 8 += 16 × 16 times 16 × 8. */
static __device__ inline void attention_multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
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

template <int HEAD> struct in_half {
    static const int SIZE = HEAD, KEYS = 64, PIECES = HEAD / 16;
    typedef uint16_t element;
    struct room { /* rows are padded, so that eight of them meet all banks */
        uint16_t k[KEYS][SIZE + 8], v[KEYS][SIZE + 8];
    } __attribute__((aligned(16)));

    static __device__ void place(room *r, int32_t row, int32_t col, uint4 k, uint4 v)
    {
        *(uint4 *)&r->k[row][col] = k;
        *(uint4 *)&r->v[row][col] = v;
    }

    static __device__ void take_q(const gwm_attention_args *a, const uint16_t *q, int32_t first,
                                  uint32_t fq[PIECES][4])
    {
        int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
        for (int i = 0; i < PIECES; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++) { /* rows past the last are read as the last, and not stored */
                int32_t row = min(first + lane / 4 + e % 2 * 8, a->queries - 1);
                fq[i][e] = *(const uint32_t *)(q + row * a->q_at.row + i * 16 + e / 2 * 8 + lane % 4 * 2);
            }
        }
    }

    static __device__ void score(const uint32_t (*q)[4], const room *room, float s[KEYS / 8][4])
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
                attention_multiply(s[n], q[i], b[0], b[1]);
                attention_multiply(s[n + 1], q[i], b[2], b[3]);
            }
        }
    }

    static __device__ void add_values(const float s[KEYS / 8][4], const room *room, float o[SIZE / 8][4])
    {
        int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
        for (int i = 0; i < KEYS / 16; i++) {
            const float *u = s[2 * i], *w = s[2 * i + 1];
            const uint32_t p[4] = {gwm_half_put2(u[0], u[1]), gwm_half_put2(u[2], u[3]),
                                   gwm_half_put2(w[0], w[1]), gwm_half_put2(w[2], w[3])};
#pragma unroll
            for (int n = 0; n < SIZE / 8; n += 2) {
                uint32_t b[4];
                load4_turned(b, &room->v[i * 16 + lane % 16][n * 8 + lane / 16 * 8]);
                attention_multiply(o[n], p, b[0], b[1]);
                attention_multiply(o[n + 1], p, b[2], b[3]);
            }
        }
    }
};

#define GWM_ATTEND(size, a) attend<in_half<size>>(a)
GWM_ATTENTIONS(gwm_attention_)
