/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel for test_product.c: one product, whose tiles go to the blocks in turn. */
struct product_args {
    struct mm_product product;
};

GW_KERNEL(product_kernel, struct product_args, a)
{
    struct mm_product p = a->product;

    for (uint32_t tile = gw_block_idx(); tile < mm_tiles(p.n); tile += gw_grid_dim()) mm_tile(&p, tile);
}
