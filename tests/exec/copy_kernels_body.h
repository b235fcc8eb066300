/* SPDX-License-Identifier: Apache-2.0 */
/* Included by copy_kernels.c for the CPU and by copy_kernels.cu for the GPU. */
#include "tests/exec/copy_kernels.h"

GW_FN uint8_t byte_at(uint32_t i)
{
    return (uint8_t)(i * 37 + (i >> 8) * 11 + 5);
}

/* From every alignment to every other: the bytes there, and none before or after them, are what was here. */
GW_KERNEL(copy_kernel, struct copy_args, a)
{
    uint32_t me = gw_thread_idx(), size = gw_block_dim(), i, at, from;
    uint64_t wrong = 0;

    for (i = me; i < COPY_ROOM; i += size) a->from[i] = byte_at(i);
    for (at = 16; at < 32; at++) {
        for (from = 16; from < 32; from++) {
            for (i = me; i < COPY_ROOM; i += size) a->to[i] = 0;
            gw_syncthreads();
            gw_copy_share(a->to + at, a->from + from, a->len, me, size);
            gw_syncthreads();
            for (i = me; i < COPY_ROOM; i += size)
                wrong += a->to[i] != (i < at || i >= at + a->len ? 0 : byte_at(i - at + from));
            gw_syncthreads();
        }
    }
    a->wrong[me] = wrong;
}

/* The block's shared memory is memory, too. */
GW_KERNEL(copy_shared_kernel, struct copy_args, a)
{
    struct piece {
        uint64_t word[32];
    };
    GW_SHARED(struct piece, piece);
    uint32_t me = gw_thread_idx(), size = gw_block_dim(), i;
    uint64_t wrong = 0;

    for (i = me; i < sizeof(*piece); i += size) a->from[i] = byte_at(i);
    gw_syncthreads();
    gw_copy_share(piece, a->from, sizeof(*piece), me, size);
    gw_syncthreads();
    gw_copy_share(a->to, piece, sizeof(*piece), me, size);
    gw_syncthreads();
    for (i = me; i < sizeof(*piece); i += size) wrong += a->to[i] != byte_at(i);
    a->wrong[me] = wrong;
}
