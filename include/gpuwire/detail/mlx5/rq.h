/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rq.h: receive queues, of one queue pair and shared. Included by mlx5.h, which says where it is from.
 */
#include <gpuwire/mlx5.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_MLX5_RQ_H
#define GPUWIRE_DETAIL_MLX5_RQ_H

/* A receive queue's memory: wqes is a power of two; stride is a power of two of at least 16 bytes. */
struct gw_mlx5_rq {
    void *buf;
    uint32_t wqes;
    uint32_t stride;
};

/*
 * Writes the idx-th receive WQE. Zero-length entries are skipped. A list shorter than max_sge (the queue's,
 * at most stride / 16) is ended. Returns 0, or -EINVAL for more than max_sge entries, or one of 2^31 bytes or
 * more.
 */
GW_FN int gw_mlx5_put_recv(const struct gw_mlx5_rq *rq, uint32_t idx, const struct gw_mlx5_sge *sge,
                           uint32_t num_sge, uint32_t max_sge)
{
    uint8_t *wqe = (uint8_t *)rq->buf + (size_t)(idx & (rq->wqes - 1)) * rq->stride;
    uint32_t i, n = 0;

    if (num_sge > max_sge || max_sge > rq->stride / GW_MLX5_UNIT) return -EINVAL;
    for (i = 0; i < num_sge; i++)
        if (sge[i].length >> 31) return -EINVAL;
    for (i = 0; i < num_sge; i++)
        if (sge[i].length)
            gw_store16(wqe + GW_MLX5_UNIT * n++, gw_mlx5_data(sge[i].addr, sge[i].length, sge[i].lkey));
    if (n < max_sge) gw_store16(wqe + GW_MLX5_UNIT * n, gw_mlx5_data_end());
    return 0;
}

/*
 * A shared receive queue's WQE begins with a segment that names the entry to be used after it; its list of
 * data follows. The queue's user links the entries, so that any of them may be the next.
 */
GW_FN struct gw_u128 gw_mlx5_srq_next(uint32_t next_idx)
{
    struct gw_u128 s = {{gw_be32(next_idx & 0xffff), 0, 0, 0}};
    return s;
}

/*
 * Writes entry idx of a shared receive queue (memory as of a receive queue), but for its link. As libmlx5
 * does it writes zero-length entries too, which hardware reads as 2^31 bytes. The queue's max_sge is at most
 * stride / 16 - 1. Returns 0, or -EINVAL as gw_mlx5_put_recv.
 */
GW_FN int gw_mlx5_put_srq_recv(const struct gw_mlx5_rq *rq, uint32_t idx, const struct gw_mlx5_sge *sge,
                               uint32_t num_sge, uint32_t max_sge)
{
    uint8_t *wqe = (uint8_t *)rq->buf + (size_t)(idx & (rq->wqes - 1)) * rq->stride;
    uint32_t i;

    if (num_sge > max_sge || max_sge + 1 > rq->stride / GW_MLX5_UNIT) return -EINVAL;
    for (i = 0; i < num_sge; i++)
        if (sge[i].length >> 31) return -EINVAL;
    for (i = 0; i < num_sge; i++)
        gw_store16(wqe + GW_MLX5_UNIT * (i + 1), gw_mlx5_data(sge[i].addr, sge[i].length, sge[i].lkey));
    if (i < max_sge) gw_store16(wqe + GW_MLX5_UNIT * (i + 1), gw_mlx5_data_end());
    return 0;
}

#endif
