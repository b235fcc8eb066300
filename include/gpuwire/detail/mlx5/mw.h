/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mw.h: memory windows: entries that bind them. Included by mlx5.h, which says where it is from.
 */
#include <gpuwire/mlx5.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_MLX5_MW_H
#define GPUWIRE_DETAIL_MLX5_MW_H

/* The rights that a window grants: bits of a key's access flags. */
enum gw_mlx5_mkey_access {
    GW_MLX5_MKEY_LOCAL_WRITE = 1 << 3,
    GW_MLX5_MKEY_REMOTE_READ = 1 << 4,
    GW_MLX5_MKEY_REMOTE_WRITE = 1 << 5,
    GW_MLX5_MKEY_ATOMIC = 1 << 6,
};

enum {
    GW_MLX5_UMR_UNITS = 8,       /* of a UMR WQE without memory */
    GW_MLX5_UMR_BIND_UNITS = 12, /* with it */
    GW_MLX5_UMR_CHECK_QPN = 1 << 3,
    GW_MLX5_UMR_OFFSET = 1 << 4,
    GW_MLX5_UMR_CHECK_FREE = 1 << 5,
    GW_MLX5_UMR_INLINE = 1 << 7,
    GW_MLX5_UMR_MASK_MKEY = 1 << 13,
    GW_MLX5_UMR_MASK_QPN = 1 << 14,
    GW_MLX5_UMR_MASK_FREE = 1 << 29,
    /* length, start address, and the four rights */
    GW_MLX5_UMR_MASK_MEMORY = 1 << 0 | 1 << 6 | 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21,
    GW_MLX5_UMR_ONE_PIECE = 4, /* klm_octowords of a list of one, padded to 64 bytes */
    GW_MLX5_MKEY_FREE = 1 << 6,
};

/* The request of IBV_WR_BIND_MW or IBV_WR_LOCAL_INV, in the form in which libmlx5 writes it. */
struct gw_mlx5_bind {
    uint32_t mkey;   /* the window's key until now */
    uint8_t tag;     /* the lower byte of its key from now on */
    uint8_t type2;   /* for one queue pair; a free one is bound, and invalidated before it is bound again */
    uint8_t access;  /* enum gw_mlx5_mkey_access */
    uint32_t length; /* 0: it grants nothing any more, and the fields below do not count */
    uint32_t lkey;   /* of the region that it opens, */
    uint64_t addr;   /* from this address on, */
    uint64_t start;  /* which peers know as this one */
};

/* Writes it at WQEBB idx, and returns the WQEBBs taken: 2, or 3 with memory. Reserved bytes become 0. */
GW_FN uint32_t gw_mlx5_put_bind(const struct gw_mlx5_sq *sq, uint32_t idx, const struct gw_mlx5_bind *b,
                                uint32_t flags)
{
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB, ds = b->length ? GW_MLX5_UMR_BIND_UNITS : GW_MLX5_UMR_UNITS, i;
    uint32_t how = GW_MLX5_UMR_OFFSET | GW_MLX5_UMR_INLINE,
             mask = GW_MLX5_UMR_MASK_FREE | GW_MLX5_UMR_MASK_MKEY;
    uint32_t owner = b->length && b->type2 ? sq->qpn << 8 : 0xffffff00u;
    struct gw_u128 zero = {{0, 0, 0, 0}}, s = zero;

    if (b->type2) mask |= GW_MLX5_UMR_MASK_QPN;
    if (b->length) mask |= GW_MLX5_UMR_MASK_MEMORY;
    if (b->type2) how |= b->length ? GW_MLX5_UMR_CHECK_FREE : GW_MLX5_UMR_CHECK_QPN;
    gw_mlx5_put(sq, u++, gw_mlx5_ctrl(GW_MLX5_UMR, idx, sq->qpn, ds, flags, gw_be32(b->mkey)));
    s.w[0] = gw_be32(how << 24);
    s.w[1] = gw_be32(b->length ? GW_MLX5_UMR_ONE_PIECE << 16 : 0);
    s.w[3] = gw_be32(mask);
    gw_mlx5_put(sq, u++, s);
    for (i = 0; i < 2; i++) gw_mlx5_put(sq, u++, zero);
    s = zero;
    s.w[0] = gw_be32(b->length ? (uint32_t)b->access << 8 : (uint32_t)GW_MLX5_MKEY_FREE << 24);
    s.w[1] = gw_be32(owner | b->tag);
    gw_mlx5_put(sq, u++, s);
    s = zero;
    if (b->length) {
        s.w[0] = gw_be32((uint32_t)(b->start >> 32));
        s.w[1] = gw_be32((uint32_t)b->start);
        s.w[3] = gw_be32(b->length);
    }
    gw_mlx5_put(sq, u++, s);
    for (i = 0; i < 2; i++) gw_mlx5_put(sq, u++, zero);
    if (b->length) {
        gw_mlx5_put(sq, u++, gw_mlx5_data(b->addr, b->length, b->lkey));
        for (i = 0; i < 3; i++) gw_mlx5_put(sq, u++, zero);
    }
    return gw_mlx5_wqebbs(ds);
}

#endif
