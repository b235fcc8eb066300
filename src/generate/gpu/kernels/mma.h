/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor cores: a warp multiplies 16 × 16 by 16 × 8 elements of 16 bits, and adds the product to floats.
 *
 * Lane 4 g + t has of the left factor rows g and g + 8: a[0] columns 2 t and 2 t + 1 of row g, a[1] those of
 * row g + 8, a[2] and a[3] columns 8 further on. Of the right factor it has column g: b0 rows 2 t and
 * 2 t + 1, b1 rows 8 further on. Of the result d[0] and d[1] are columns 2 t and 2 t + 1 of row g, d[2] and
 * d[3] those of row g + 8.
 *
 * CPU threads, and GPUs without such instructions for a type, do the same by exchanging their elements. The
 * same kernels so run in tests. All 32 lanes of a warp must be there.
 */
#ifndef GW_GENERATE_GPU_KERNELS_MMA_H
#define GW_GENERATE_GPU_KERNELS_MMA_H

#include "src/generate/gpu/kernels/element.h"

#ifdef __CUDACC__
#include <nv/target>
#else
struct gen_mma_lane {
    uint32_t w[6];
};

/* Two places: while a lane reads one, a lane that is ahead writes the other. */
struct gen_mma_room {
    struct gen_mma_lane lane[2][32 * GEN_GPU_WARPS];
    uint32_t turn[32 * GEN_GPU_WARPS];
} __attribute__((aligned(16)));
#endif

GW_DEV float gen_mma_dot(uint32_t type, uint32_t a, uint32_t b)
{
    if (type == GW_DTYPE_F16)
        return gwm_half_get((uint16_t)a) * gwm_half_get((uint16_t)b) +
               gwm_half_get((uint16_t)(a >> 16)) * gwm_half_get((uint16_t)(b >> 16));
    return gen_bits_float(a << 16) * gen_bits_float(b << 16) +
           gen_bits_float(a & 0xffff0000) * gen_bits_float(b & 0xffff0000);
}

/* Word i of the six of that lane. */
#ifdef __CUDACC__
#define GEN_MMA_OF(lane, i) __shfl_sync(0xffffffff, mine[i], lane)
#else
#define GEN_MMA_OF(from, i) all[(from)].w[i]
#endif

/* By exchange. */
GW_SLOW_DEV void gen_mma_slow(uint32_t type, float d[4], const uint32_t mine[6])
{
    uint32_t lane = gw_lane(), g = lane / 4, t = lane % 4, s;
#ifndef __CUDACC__
    GW_SHARED(struct gen_mma_room, room);
    uint32_t me = gw_thread_idx(), turn = room->turn[me]++ & 1;
    const struct gen_mma_lane *all = &room->lane[turn][me - lane];

    memcpy(room->lane[turn][me].w, mine, sizeof(room->lane[turn][me].w));
    gw_syncwarp(gw_warp_all()); /* all have written before one reads */
#endif
    for (s = 0; s < 4; s++) {
        uint32_t a = g * 4 + s, b = t * 8 + s, low = GEN_MMA_OF(b, 4), low8 = GEN_MMA_OF(b, 5),
                 high = GEN_MMA_OF(b + 4, 4), high8 = GEN_MMA_OF(b + 4, 5), w;
        w = GEN_MMA_OF(a, 0), d[0] += gen_mma_dot(type, w, low), d[1] += gen_mma_dot(type, w, high);
        w = GEN_MMA_OF(a, 1), d[2] += gen_mma_dot(type, w, low), d[3] += gen_mma_dot(type, w, high);
        w = GEN_MMA_OF(a, 2), d[0] += gen_mma_dot(type, w, low8), d[1] += gen_mma_dot(type, w, high8);
        w = GEN_MMA_OF(a, 3), d[2] += gen_mma_dot(type, w, low8), d[3] += gen_mma_dot(type, w, high8);
    }
}
#undef GEN_MMA_OF

GWM_INLINE void gen_mma(uint32_t type, float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};

#ifdef __CUDACC__
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_80,
        (if (type == GW_DTYPE_F16) asm(
             "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
             "{%0,%1,%2,%3};"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
             : "r"(mine[0]), "r"(mine[1]), "r"(mine[2]), "r"(mine[3]), "r"(mine[4]), "r"(mine[5]));
         else asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                  "{%8,%9}, {%0,%1,%2,%3};"
                  : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                  : "r"(mine[0]), "r"(mine[1]), "r"(mine[2]), "r"(mine[3]), "r"(mine[4]), "r"(mine[5]));),
        (gen_mma_slow(type, d, mine);))
#else
    gen_mma_slow(type, d, mine);
#endif
}

/* Sum, or the largest, of the four lanes with the same g. */
GW_DEV float gen_four(float v, int most)
{
    uint32_t step, bits;

    for (step = 1; step < 4; step *= 2) {
        float other;
        memcpy(&bits, &v, sizeof(bits));
        other = gen_bits_float(gw_shfl_u32(gw_warp_all(), bits, gw_lane() ^ step));
        v = !most ? v + other : other > v ? other : v;
    }
    return v;
}

#endif
