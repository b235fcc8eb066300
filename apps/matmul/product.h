/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.h: one matrix product, as the threads of blocks compute it. product_cpu.h and product_gpu.h each
 * define mm_tile; kernels.c includes the one and kernels.cu the other.
 *
 * C is cut into tiles of MM_TILE × MM_TILE, and each tile is one block's work.
 * Tiles at the edges are smaller.
 *
 * Rounding. fp32: each product and each sum is rounded to fp32 (or both together, where the processor fuses
 * them). TF32 and fp16: products are exact, and sums are fp32, which a GPU's tensor cores may truncate. An
 * element's error is at most n · 2⁻²² · Σ|a||b|. TF32 rounds the factors before, each by 2⁻¹¹ of it at most.
 */
#ifndef MATMUL_PRODUCT_H
#define MATMUL_PRODUCT_H

#include <gpuwire/group.h>
#include <gpuwire/kernel.h>

#define MM_FN GW_FN
#include "protocol.h"

#define MM_TILE 64

struct mm_product {
    const void *a, *b; /* aligned to 64 bytes, as c */
    float *c;
    uint32_t n, type;
};

/* How many tiles C has. */
GW_FN uint32_t mm_tiles(uint32_t n)
{
    uint32_t across = (n + MM_TILE - 1) / MM_TILE;

    return across * across;
}

/*
 * GW_DEV void mm_tile(const struct mm_product *p, uint32_t tile): computes one tile of C. All threads of the
 * block call it, and wait for each other when it ends. It uses 32 KiB of shared memory.
 */

#endif
