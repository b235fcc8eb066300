/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlx5.h: what a ConnectX and its driver write into each other's memory.
 *
 * Pure functions and layouts: builders for send and receive work-queue entries (WQEs), completion entries
 * (CQEs), and the values of doorbell records and registers. The same source runs on the host and in kernels.
 * Nothing here orders memory or rings anything. Builders use plain stores, and the poster publishes
 * (gpuwire/verbs.h).
 *
 * Source of every layout: rdma-core's public providers/mlx5/mlx5dv.h; of every rule:
 * providers/mlx5/{qp,cq}.c. The send builders write, for the same work request, the bytes that libmlx5's
 * ibv_post_send writes (tests/mlx5/test_against_libmlx5.c compares them). Multi-byte fields are big-endian in
 * memory; arguments are in host order unless their name ends in _be.
 */
#ifndef GPUWIRE_MLX5_H
#define GPUWIRE_MLX5_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>

/* ---- constants ---------------------------------------------------------------------------------------- */

enum {
    GW_MLX5_WQEBB = 64, /* bytes of a send queue's building block; queues count in these */
    GW_MLX5_UNIT = 16,  /* bytes of a segment; `ds` counts in these */
    GW_MLX5_UNITS_PER_BB = 4,
    GW_MLX5_MAX_DS = 63,       /* `ds` has six bits */
    GW_MLX5_MAX_WQEBBS = 16,   /* what 63 units need */
    GW_MLX5_MAX_MSG = 1 << 30, /* bytes of one message, as ConnectX reports it (log_max_msg) */
    GW_MLX5_CQE = 64,
    GW_MLX5_INVALID_LKEY = 0x100, /* ends a receive WQE's list early */
};

enum gw_mlx5_opcode {
    GW_MLX5_NOP = 0x00,
    GW_MLX5_SEND_INVAL = 0x01,
    GW_MLX5_WRITE = 0x08,
    GW_MLX5_WRITE_IMM = 0x09,
    GW_MLX5_SEND = 0x0a,
    GW_MLX5_SEND_IMM = 0x0b,
    GW_MLX5_READ = 0x10,
    GW_MLX5_ATOMIC_CS = 0x11, /* compare and swap, 8 bytes */
    GW_MLX5_ATOMIC_FA = 0x12, /* fetch and add, 8 bytes */
    GW_MLX5_MASKED_CS = 0x14, /* the same by parts of the 8 bytes: */
    GW_MLX5_MASKED_FA = 0x15, /* see gw_mlx5_put_masked_cs and gw_mlx5_put_atomic */
    GW_MLX5_UMR = 0x25,       /* binds a memory window, or takes what it grants back */
};

/* The opcode modifier of a masked atomic: 8 | log2(bytes of the operand) - 2. Others have 0. */
enum { GW_MLX5_OPMOD_8_BYTES = 0x09 };

/* The control segment's fm_ce_se byte: or these together. */
enum gw_mlx5_ctrl_flags {
    GW_MLX5_SOLICITED = 0x02, /* raises the peer's event when it arms for solicited ones */
    GW_MLX5_SIGNALED = 0x08,  /* write a CQE on success too (CE = 2) */
    GW_MLX5_CE_MASK = 0x0c,
    GW_MLX5_SMALL_FENCE = 0x20, /* after a bind or local invalidate */
    GW_MLX5_FENCE = 0x80,       /* IBV_SEND_FENCE: wait for earlier READs and atomics */
    GW_MLX5_FENCE_MASK = 0xe0,
};

/* A scatter/gather entry; the same layout as struct ibv_sge, so that a pointer to one may be cast to the
 * other. */
struct gw_mlx5_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
} __attribute__((may_alias));

/*
 * Where a datagram goes: the address vector of a UD WQE (mlx5_wqe_av), as it stands there. One comes with
 * each of libmlx5's address handles (mlx5dv_init_obj, MLX5DV_OBJ_AH). Key and number are each request's own.
 */
struct gw_mlx5_av {
    uint32_t qkey_be; /* bit 31: the queue pair's own Q_Key is meant */
    uint32_t rsvd4;
    uint32_t dqpn_be; /* bits 23:0; bit 31: the vector has all its 48 bytes, and not only 16 */
    uint8_t rate_sl, fl_mlid;
    uint16_t sport_be; /* RoCEv2: UDP source port; InfiniBand: the peer's LID */
    uint32_t rsvd16;
    uint8_t rmac[6], traffic_class, hop_limit;
    uint32_t grh_be; /* 30: GRH (InfiniBand only); 27:20: own GID's index; 19:0: flow label */
    uint8_t rgid[16];
} __attribute__((aligned(4), may_alias));

enum {
    GW_MLX5_AV_UNITS = 3,
    GW_MLX5_UD_HEAD = 1 + GW_MLX5_AV_UNITS, /* units in front of a UD WQE's payload */
};
#define GW_MLX5_AV_EXTENDED 0x80000000u
#define GW_MLX5_QKEY_OF_QP  0x80000000u

/* ---- segments, 16 bytes each -------------------------------------------------------------------------- */

/* The first segment: idx is the WQE's first WQEBB (mod 2^16), ds its length in 16-byte units, this one
 * included. */
GW_FN struct gw_u128 gw_mlx5_ctrl(uint32_t opcode, uint32_t idx, uint32_t qpn, uint32_t ds, uint32_t flags,
                                  uint32_t imm_be)
{
    uint32_t opmod = (opcode & 0xfe) == GW_MLX5_MASKED_CS ? GW_MLX5_OPMOD_8_BYTES : 0; /* both have it */
    struct gw_u128 s = {{gw_be32(opmod << 24 | (idx & 0xffff) << 8 | (opcode & 0xff)),
                         gw_be32(qpn << 8 | (ds & 0x3f)), (flags & 0xff) << 24, imm_be}};
    return s;
}

GW_FN struct gw_u128 gw_mlx5_raddr(uint64_t raddr, uint32_t rkey)
{
    struct gw_u128 s = {{gw_be32((uint32_t)(raddr >> 32)), gw_be32((uint32_t)raddr), gw_be32(rkey), 0}};
    return s;
}

/* length is 1 … 2^31 - 1: hardware reads 0 as 2^31 bytes, so a zero-length entry is left out of the list. */
GW_FN struct gw_u128 gw_mlx5_data(uint64_t addr, uint32_t length, uint32_t lkey)
{
    struct gw_u128 s = {
        {gw_be32(length), gw_be32(lkey), gw_be32((uint32_t)(addr >> 32)), gw_be32((uint32_t)addr)}};
    return s;
}

GW_FN struct gw_u128 gw_mlx5_atomic(uint64_t swap_or_add, uint64_t compare)
{
    struct gw_u128 s = {{gw_be32((uint32_t)(swap_or_add >> 32)), gw_be32((uint32_t)swap_or_add),
                         gw_be32((uint32_t)(compare >> 32)), gw_be32((uint32_t)compare)}};
    return s;
}

/* Ends a receive WQE that has fewer entries than its stride has room for. */
GW_FN struct gw_u128 gw_mlx5_data_end(void)
{
    struct gw_u128 s = {{0, gw_be32(GW_MLX5_INVALID_LKEY), 0, 0}};
    return s;
}

/* An inline segment whose payload fits beside its header: length is 1 … 12; w0 … w2 hold the bytes as in
 * memory. */
GW_FN struct gw_u128 gw_mlx5_inline12(uint32_t length, uint32_t w0, uint32_t w1, uint32_t w2)
{
    struct gw_u128 s = {{gw_be32(length | 0x80000000u), w0, w1, w2}};
    return s;
}

/* ---- doorbells ---------------------------------------------------------------------------------------- */

enum {
    GW_MLX5_DBREC_RECV = 0,   /* word of a queue pair's doorbell record: receive WQEs posted */
    GW_MLX5_DBREC_SEND = 1,   /* WQEBBs posted */
    GW_MLX5_DBREC_SRQ = 0,    /* word of a shared receive queue's record: WQEs posted */
    GW_MLX5_DBREC_CQ_CI = 0,  /* word of a completion queue's record: CQEs consumed */
    GW_MLX5_DBREC_CQ_ARM = 1, /* what the CQ was last armed for */
    GW_MLX5_UAR_PAGE = 4096,
    GW_MLX5_UAR_CQ = 0x20,  /* the register that arms CQs */
    GW_MLX5_UAR_BF = 0x800, /* the first BlueFlame register */
    GW_MLX5_UAR_BFS = 4,    /* BlueFlame registers of a page (two for users) */
};

/* The record's word for a count of posted WQEs or WQEBBs. */
GW_FN uint32_t gw_mlx5_dbrec_be(uint32_t count)
{
    return gw_be32(count & 0xffff);
}

GW_FN uint32_t gw_mlx5_dbrec_count(uint32_t word_be)
{
    return gw_be32(word_be) & 0xffff;
}

GW_FN uint32_t gw_mlx5_cq_ci_be(uint32_t ci)
{
    return gw_be32(ci & 0xffffff);
}

/* The arm word of a CQ's record: sn counts the events taken so far (2 bits), ci the CQEs consumed. */
GW_FN uint32_t gw_mlx5_cq_arm_be(uint32_t sn, int solicited_only, uint32_t ci)
{
    return gw_be32((sn & 3) << 28 | (solicited_only ? 1u << 24 : 0) | (ci & 0xffffff));
}

/* The CQ register takes the arm word, then the CQ's number, as one 8-byte big-endian store. */
GW_FN uint64_t gw_mlx5_cq_db_be(uint32_t arm_be, uint32_t cqn)
{
    return (uint64_t)gw_be32(cqn & 0xffffff) << 32 | arm_be;
}

/* A send doorbell register takes next index and queue pair. This is for when the WQE's own first 8 bytes are
 * not at hand. */
GW_FN uint64_t gw_mlx5_sq_db_be(uint32_t next_idx, uint32_t qpn)
{
    return (uint64_t)gw_be32(qpn << 8) << 32 | gw_be32((next_idx & 0xffff) << 8);
}

/* Offset in the UAR page of BlueFlame register k; size is both halves' (log_bf_reg_size), used alternately.
 */
GW_FN uint32_t gw_mlx5_bf_offset(uint32_t k, uint32_t size, uint32_t half)
{
    return GW_MLX5_UAR_BF + k * size + (half ? size / 2 : 0);
}

#include <gpuwire/detail/mlx5/sq.h>
#include <gpuwire/detail/mlx5/mw.h>
#include <gpuwire/detail/mlx5/rq.h>
#include <gpuwire/detail/mlx5/cq.h>

#endif
