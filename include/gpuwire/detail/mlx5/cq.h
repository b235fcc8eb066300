/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cq.h: completion queues: how entries are read and written. Included by mlx5.h, which says where it is from.
 */
#include <gpuwire/mlx5.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_MLX5_CQ_H
#define GPUWIRE_DETAIL_MLX5_CQ_H

enum gw_mlx5_cqe_opcode {
    GW_MLX5_CQE_REQ = 0,
    GW_MLX5_CQE_RESP_WR_IMM = 1,
    GW_MLX5_CQE_RESP_SEND = 2,
    GW_MLX5_CQE_RESP_SEND_IMM = 3,
    GW_MLX5_CQE_RESP_SEND_INV = 4,
    GW_MLX5_CQE_REQ_ERR = 13,
    GW_MLX5_CQE_RESP_ERR = 14,
    GW_MLX5_CQE_INVALID = 15, /* this entry has not been written yet */
};

enum gw_mlx5_syndrome {
    GW_MLX5_SYND_LOCAL_LENGTH = 0x01,
    GW_MLX5_SYND_LOCAL_QP_OP = 0x02,
    GW_MLX5_SYND_LOCAL_PROT = 0x04,
    GW_MLX5_SYND_FLUSHED = 0x05,
    GW_MLX5_SYND_BIND = 0x06,
    GW_MLX5_SYND_BAD_RESP = 0x10,
    GW_MLX5_SYND_LOCAL_ACCESS = 0x11,
    GW_MLX5_SYND_REM_INV_REQ = 0x12,
    GW_MLX5_SYND_REM_ACCESS = 0x13,
    GW_MLX5_SYND_REM_OP = 0x14,
    GW_MLX5_SYND_RETRY_EXC = 0x15,
    GW_MLX5_SYND_RNR_EXC = 0x16,
    GW_MLX5_SYND_ABORTED = 0x22,
};

/* Payload that lies inside the CQE instead of in memory: two bits of op_own. */
enum {
    GW_MLX5_CQE_SCATTER_32 = 1, /* up to 32 bytes in this CQE's first half */
    GW_MLX5_CQE_SCATTER_64 = 2, /* up to 64 bytes in the 64 before it (128-byte CQEs) */
};

/* A completion entry. Of a 128-byte CQE this is the second half. */
struct gw_mlx5_cqe {
    uint8_t rsvd0[17];
    uint8_t ml_path;
    uint8_t rsvd18[4];
    uint16_t slid_be;
    uint32_t flags_rqpn_be; /* bits 29:28 GRH present, 27:24 SL or enum gw_mlx5_roce_packet, 23:0 source QP */
    uint8_t rsvd28[4];
    uint32_t srqn_uidx_be;
    uint32_t imm_be; /* immediate, or the key invalidated */
    uint8_t rsvd40[4];
    uint32_t byte_cnt_be;
    uint8_t timestamp_be[8]; /* bytes 54 and 55 of an error CQE are vendor syndrome and syndrome */
    uint32_t wqe_opcode_qpn_be;
    uint16_t wqe_counter_be;
    uint8_t signature;
    uint8_t op_own; /* opcode<<4 | scatter<<2 | solicited<<1 | owner */
} __attribute__((aligned(64), may_alias));

/* What a RoCE NIC says of a datagram's headers where an InfiniBand one has the service level. UCX looks for
 * the receiver's address in the 40 bytes before the message by it. Source: UCX's
 * src/uct/ib/ud/base/ud_iface.h. */
enum gw_mlx5_roce_packet {
    GW_MLX5_ROCE_V1 = 0,
    GW_MLX5_ROCE_V2_IPV6 = 8 | 1, /* 8: it has a UDP header */
    GW_MLX5_ROCE_V2_IPV4 = 8 | 2,
};

/* A completion, decoded. */
struct gw_mlx5_wc {
    uint8_t opcode;     /* enum gw_mlx5_cqe_opcode */
    uint8_t wqe_opcode; /* requester: of the WQE that this one reports */
    uint8_t syndrome;   /* errors: enum gw_mlx5_syndrome */
    uint8_t vendor;     /* errors: the device's own code */
    uint8_t solicited;
    uint8_t scatter; /* 0, GW_MLX5_CQE_SCATTER_32 or _64 */
    uint8_t grh;
    uint8_t sl;           /* of a datagram, on RoCE: enum gw_mlx5_roce_packet */
    uint16_t wqe_counter; /* requester: first WQEBB of the WQE; it retires everything before it. Receiver:
                             WQE's number */
    uint32_t qpn;
    uint32_t uidx; /* the queue pair's user index (cqe_version 1), or SRQ number */
    uint32_t byte_cnt;
    uint32_t imm_be;
    uint32_t src_qp;
    uint64_t timestamp;
};

/*
 * Is the entry that consumer index ci points at (in a ring of cqe_cnt, a power of two) the hardware's or
 * ours? Its last byte is op_own, read once. When this says yes, an acquire barrier must stand before the rest
 * is read. It forbids reads of the other 63 bytes to be satisfied before the owner bit was seen.
 */
GW_FN int gw_mlx5_cqe_ready(uint32_t op_own, uint32_t ci, uint32_t cqe_cnt)
{
    return op_own >> 4 != GW_MLX5_CQE_INVALID && (op_own & 1) == ((ci & cqe_cnt) != 0);
}

GW_FN int gw_mlx5_wc_is_error(const struct gw_mlx5_wc *wc)
{
    return wc->opcode == GW_MLX5_CQE_REQ_ERR || wc->opcode == GW_MLX5_CQE_RESP_ERR;
}

/* The last byte of an entry that producer index pi writes. */
GW_FN uint8_t gw_mlx5_op_own(const struct gw_mlx5_wc *wc, uint32_t pi, uint32_t cqe_cnt)
{
    return (uint8_t)(wc->opcode << 4 | (wc->scatter & 3) << 2 | (wc->solicited ? 2 : 0) |
                     ((pi & cqe_cnt) != 0));
}

/* Decodes an entry that gw_mlx5_cqe_ready has admitted. 0, or -EPROTO for an opcode that no queue pair makes.
 */
GW_FN int gw_mlx5_cqe_parse(const struct gw_mlx5_cqe *cqe, struct gw_mlx5_wc *wc)
{
    uint32_t op_qpn = gw_be32(cqe->wqe_opcode_qpn_be), rqpn = gw_be32(cqe->flags_rqpn_be), i;

    wc->opcode = cqe->op_own >> 4;
    wc->scatter = cqe->op_own >> 2 & 3;
    wc->solicited = cqe->op_own >> 1 & 1;
    wc->wqe_opcode = (uint8_t)(op_qpn >> 24);
    wc->qpn = op_qpn & 0xffffff;
    wc->wqe_counter = gw_be16(cqe->wqe_counter_be);
    wc->uidx = gw_be32(cqe->srqn_uidx_be) & 0xffffff;
    wc->byte_cnt = gw_be32(cqe->byte_cnt_be);
    wc->imm_be = cqe->imm_be;
    wc->src_qp = rqpn & 0xffffff;
    wc->grh = (rqpn >> 28 & 3) != 0;
    wc->sl = rqpn >> 24 & 15;
    wc->syndrome = wc->vendor = 0;
    wc->timestamp = 0;
    if (gw_mlx5_wc_is_error(wc)) {
        wc->vendor = cqe->timestamp_be[6];
        wc->syndrome = cqe->timestamp_be[7];
        return 0;
    }
    for (i = 0; i < 8; i++) wc->timestamp = wc->timestamp << 8 | cqe->timestamp_be[i];
    return wc->opcode <= GW_MLX5_CQE_RESP_SEND_INV ? 0 : -EPROTO;
}

/*
 * Fills bytes 0 … 62 and returns the last one. The caller stores that one with release order, once the
 * payload is visible. Release forbids a poller to see the owner bit before the bytes it stands for.
 */
GW_FN uint8_t gw_mlx5_cqe_build(struct gw_mlx5_cqe *cqe, const struct gw_mlx5_wc *wc, uint32_t pi,
                                uint32_t cqe_cnt)
{
    uint8_t *bytes = (uint8_t *)cqe;
    uint32_t i;

    for (i = wc->scatter == GW_MLX5_CQE_SCATTER_32 ? 32 : 0; i < 63; i++) bytes[i] = 0;
    if (wc->scatter != GW_MLX5_CQE_SCATTER_32)
        cqe->flags_rqpn_be =
            gw_be32((wc->src_qp & 0xffffff) | (uint32_t)(wc->sl & 15) << 24 | (wc->grh ? 1u << 28 : 0));
    cqe->srqn_uidx_be = gw_be32(wc->uidx & 0xffffff);
    cqe->imm_be = wc->imm_be;
    cqe->byte_cnt_be = gw_be32(wc->byte_cnt);
    for (i = 0; i < 8; i++) cqe->timestamp_be[i] = (uint8_t)(wc->timestamp >> (56 - 8 * i));
    if (gw_mlx5_wc_is_error(wc)) {
        cqe->timestamp_be[6] = wc->vendor;
        cqe->timestamp_be[7] = wc->syndrome;
    }
    cqe->wqe_opcode_qpn_be = gw_be32((uint32_t)wc->wqe_opcode << 24 | (wc->qpn & 0xffffff));
    cqe->wqe_counter_be = gw_be16(wc->wqe_counter);
    return gw_mlx5_op_own(wc, pi, cqe_cnt);
}

#ifdef __cplusplus
#define GW_MLX5_LAYOUT(cond) static_assert(cond, #cond)
#else
#define GW_MLX5_LAYOUT(cond) static_assert(cond, #cond)
#endif
GW_MLX5_LAYOUT(sizeof(struct gw_u128) == 16);
GW_MLX5_LAYOUT(sizeof(struct gw_mlx5_sge) == 16);
GW_MLX5_LAYOUT(sizeof(struct gw_mlx5_av) == 48);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_av, dqpn_be) == 8);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_av, rmac) == 20);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_av, rgid) == 32);
GW_MLX5_LAYOUT(sizeof(struct gw_mlx5_cqe) == 64);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_cqe, flags_rqpn_be) == 24);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_cqe, srqn_uidx_be) == 32);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_cqe, byte_cnt_be) == 44);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_cqe, wqe_opcode_qpn_be) == 56);
GW_MLX5_LAYOUT(offsetof(struct gw_mlx5_cqe, op_own) == 63);
#undef GW_MLX5_LAYOUT

#endif
