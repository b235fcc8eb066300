/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_wr.h: a work request of ours in verbs' words, for libmlx5 to write the same. */
#ifndef TESTS_MLX5_VERBS_WR_H
#define TESTS_MLX5_VERBS_WR_H

#include <endian.h>
#include <string.h>

#include <infiniband/verbs.h>

#include <gpuwire/mlx5.h>

static inline enum ibv_wr_opcode verbs_opcode(uint8_t opcode)
{
    switch (opcode) {
    case GW_MLX5_SEND: return IBV_WR_SEND;
    case GW_MLX5_SEND_IMM: return IBV_WR_SEND_WITH_IMM;
    case GW_MLX5_SEND_INVAL: return IBV_WR_SEND_WITH_INV;
    case GW_MLX5_WRITE: return IBV_WR_RDMA_WRITE;
    case GW_MLX5_WRITE_IMM: return IBV_WR_RDMA_WRITE_WITH_IMM;
    case GW_MLX5_READ: return IBV_WR_RDMA_READ;
    case GW_MLX5_ATOMIC_CS: return IBV_WR_ATOMIC_CMP_AND_SWP;
    default: return IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
}

/* All but where it goes. sge has room for the request's entries. */
static inline struct ibv_send_wr verbs_wr_to_nobody(const struct gw_mlx5_wr *wr, struct ibv_sge *sge)
{
    struct ibv_send_wr v = {.opcode = verbs_opcode(wr->opcode), .sg_list = sge, .num_sge = (int)wr->num_sge};

    memcpy(sge, wr->sge, wr->num_sge * sizeof(*sge));
    if (wr->flags & GW_MLX5_SIGNALED) v.send_flags |= IBV_SEND_SIGNALED;
    if (wr->flags & GW_MLX5_SOLICITED) v.send_flags |= IBV_SEND_SOLICITED;
    if (wr->flags & GW_MLX5_FENCE) v.send_flags |= IBV_SEND_FENCE;
    if (wr->inl) v.send_flags |= IBV_SEND_INLINE;
    v.imm_data = wr->imm_be;
    if (wr->opcode == GW_MLX5_SEND_INVAL) v.invalidate_rkey = be32toh(wr->imm_be);
    return v;
}

static inline struct ibv_send_wr verbs_wr(const struct gw_mlx5_wr *wr, struct ibv_sge *sge)
{
    struct ibv_send_wr v = verbs_wr_to_nobody(wr, sge);

    if (gw_mlx5_is_atomic(wr->opcode)) {
        v.wr.atomic.remote_addr = wr->raddr, v.wr.atomic.rkey = wr->rkey;
        v.wr.atomic.swap = wr->swap_or_add;
        v.wr.atomic.compare_add = wr->opcode == GW_MLX5_ATOMIC_CS ? wr->compare : wr->swap_or_add;
    } else {
        v.wr.rdma.remote_addr = wr->raddr, v.wr.rdma.rkey = wr->rkey;
    }
    return v;
}

#endif
