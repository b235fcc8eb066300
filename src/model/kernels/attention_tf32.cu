/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with TF32 factors, which are fp32 in memory. Of a first factor's 16 × 8 elements, lane 4 g + t
 * holds four: columns t and t + 4 of rows g and g + 8. Of a second one it holds rows t and t + 4 of column
 * g. */
#include "src/model/kernels/attention.h"

static __device__ __attribute__((unused)) inline uint32_t to_tf32(float f)
{
    uint32_t bits = 0;

    NV_IF_TARGET(NV_PROVIDES_SM_80, (asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(f));))
    return bits;
}

/* d += a b: 16 × 8 += 16 × 8 times 8 × 8. */
static __device__ __attribute__((unused)) inline void multiply(float d[4], const uint32_t a[4], uint32_t b0,
                                                               uint32_t b1)
{
    NV_IF_TARGET(
        NV_PROVIDES_SM_80,
        (asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
             "{%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));))
}

template <int HEAD> struct in_tf32 {
    static const int SIZE = HEAD, KEYS = HEAD > 64 ? 32 : 64, PIECES = HEAD / 8;
    typedef float element;
    struct room { /* rows are padded: so eight keys, and four pairs of values, meet all banks */
        uint32_t k[KEYS][SIZE + 4], v[KEYS][SIZE + 4];
    } __attribute__((aligned(16)));

    static __device__ uint4 rounded(uint4 f)
    {
        return make_uint4(to_tf32(__uint_as_float(f.x)), to_tf32(__uint_as_float(f.y)),
                          to_tf32(__uint_as_float(f.z)), to_tf32(__uint_as_float(f.w)));
    }

    static __device__ void place(room *r, int32_t row, int32_t col, uint4 k, uint4 v)
    {
        *(uint4 *)&r->k[row][col] = rounded(k);
        *(uint4 *)&r->v[row][col] = rounded(v);
    }

    static __device__ void take_q(const gwm_attention_args *a, const float *q, int32_t first,
                                  uint32_t fq[PIECES][4])
    {
        int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
        for (int i = 0; i < PIECES; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++) { /* rows past the last are read as the last, and not stored */
                int32_t row = min(first + lane / 4 + e % 2 * 8, a->queries - 1);
                fq[i][e] = to_tf32(q[row * a->q_at.row + i * 8 + e / 2 * 4 + lane % 4]);
            }
        }
    }

    static __device__ void score(const uint32_t (*q)[4], const room *room, float s[KEYS / 8][4])
    {
        int32_t g = (int32_t)threadIdx.x % 32 / 4, t = (int32_t)threadIdx.x % 4;

#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = 0;
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                const uint32_t *key = &room->k[n * 8 + g][i * 8 + t];
                multiply(s[n], q[i], key[0], key[4]);
            }
        }
    }

    /* A lane has the weights of keys 2 t and 2 t + 1, where the product wants t and t + 4. The order of the
     * keys does not matter to a sum, so it takes the values in the same order. */
    static __device__ void add_values(const float s[KEYS / 8][4], const room *room, float o[SIZE / 8][4])
    {
        int32_t g = (int32_t)threadIdx.x % 32 / 4, t = (int32_t)threadIdx.x % 4;

#pragma unroll
        for (int i = 0; i < KEYS / 8; i++) {
            const uint32_t p[4] = {to_tf32(s[i][0]), to_tf32(s[i][2]), to_tf32(s[i][1]), to_tf32(s[i][3])};
#pragma unroll
            for (int n = 0; n < SIZE / 8; n++)
                multiply(o[n], p, room->v[i * 8 + 2 * t][n * 8 + g], room->v[i * 8 + 2 * t + 1][n * 8 + g]);
        }
    }
};

/* Tensor cores before those of sm_80 know no TF32. */
#define GWM_ATTEND(size, a)                                                                                  \
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80, (attend<in_tf32<size>>(a);), (gwm_attend_rows(a, size);))
GWM_ATTENTIONS(gwm_attention_tf32_)
