/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sq.h: send queues: how entries are built. Included by mlx5.h, which says where it is from.
 *
 * Builders have up to eleven arguments, the fields of the entry: they are inlined, and fields that are
 * constants vanish.
 */
#include <gpuwire/mlx5.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_MLX5_SQ_H
#define GPUWIRE_DETAIL_MLX5_SQ_H

/* A send queue's memory as builders see it: wqebbs is a power of two, buf is aligned to 64. */
struct gw_mlx5_sq {
    void *buf;
    uint32_t wqebbs;
    uint32_t qpn;
};

GW_FN uint32_t gw_mlx5_wqebbs(uint32_t ds)
{
    return (ds + GW_MLX5_UNITS_PER_BB - 1) / GW_MLX5_UNITS_PER_BB;
}

/* Where the unit-th 16-byte unit lies, counted from the queue's start and wrapped at its end. */
GW_FN void *gw_mlx5_sq_at(const struct gw_mlx5_sq *sq, uint32_t unit)
{
    return (uint8_t *)sq->buf + (size_t)(unit & (sq->wqebbs * GW_MLX5_UNITS_PER_BB - 1)) * GW_MLX5_UNIT;
}

GW_FN void gw_mlx5_put(const struct gw_mlx5_sq *sq, uint32_t unit, struct gw_u128 seg)
{
    gw_store16(gw_mlx5_sq_at(sq, unit), seg);
}

/* The n-th unit of a WQE at WQEBB idx, one of the first four: those of one WQEBB lie one after another. */
GW_FN void gw_mlx5_put_nth_(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t n, struct gw_u128 seg)
{
    gw_store16((uint8_t *)sq->buf + (size_t)(idx & (sq->wqebbs - 1)) * GW_MLX5_WQEBB + n * GW_MLX5_UNIT, seg);
}

/*
 * The three lean builders: at most one data segment, one WQEBB, no loop. The WQE's first WQEBB is idx (any
 * 32-bit counter; only its low bits count). With len 0 it is a message without payload. They return the
 * WQEBBs used: 1.
 */
GW_HOT_FN uint32_t gw_mlx5_put_send(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t opcode,
                                    uint32_t flags, uint32_t imm_be, uint64_t addr, uint32_t len,
                                    uint32_t lkey)
{
    gw_mlx5_put_nth_(sq, idx, 0, gw_mlx5_ctrl(opcode, idx, sq->qpn, len ? 2 : 1, flags, imm_be));
    if (len) gw_mlx5_put_nth_(sq, idx, 1, gw_mlx5_data(addr, len, lkey));
    return 1;
}

/* WRITE, WRITE_IMM or READ. */
GW_HOT_FN uint32_t gw_mlx5_put_rdma(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t opcode,
                                    uint32_t flags, uint32_t imm_be, uint64_t raddr, uint32_t rkey,
                                    uint64_t addr, uint32_t len, uint32_t lkey)
{
    gw_mlx5_put_nth_(sq, idx, 0, gw_mlx5_ctrl(opcode, idx, sq->qpn, len ? 3 : 2, flags, imm_be));
    gw_mlx5_put_nth_(sq, idx, 1, gw_mlx5_raddr(raddr, rkey));
    if (len) gw_mlx5_put_nth_(sq, idx, 2, gw_mlx5_data(addr, len, lkey));
    return 1;
}

/*
 * ATOMIC_CS, ATOMIC_FA or MASKED_FA; the 8 bytes that were there before arrive at addr. FA ignores compare.
 * MASKED_FA adds field by field. Each bit set in `compare` is the highest of a field, and nothing is carried
 * out of it. The topmost field needs no mark.
 */
GW_HOT_FN uint32_t gw_mlx5_put_atomic(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t opcode,
                                      uint32_t flags, uint64_t raddr, uint32_t rkey, uint64_t swap_or_add,
                                      uint64_t compare, uint64_t addr, uint32_t lkey)
{
    gw_mlx5_put_nth_(sq, idx, 0, gw_mlx5_ctrl(opcode, idx, sq->qpn, 4, flags, 0));
    gw_mlx5_put_nth_(sq, idx, 1, gw_mlx5_raddr(raddr, rkey));
    gw_mlx5_put_nth_(sq, idx, 2, gw_mlx5_atomic(swap_or_add, compare));
    gw_mlx5_put_nth_(sq, idx, 3, gw_mlx5_data(addr, 8, lkey));
    return 1;
}

/*
 * MASKED_CS: if what is there equals compare in the bits of compare_mask, the bits of swap_mask become those
 * of swap. The old value arrives at addr. Two WQEBBs.
 */
GW_FN uint32_t gw_mlx5_put_masked_cs(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t flags,
                                     uint64_t raddr, uint32_t rkey, uint64_t swap, uint64_t compare,
                                     uint64_t swap_mask, uint64_t compare_mask, uint64_t addr, uint32_t lkey)
{
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB;

    gw_mlx5_put(sq, u, gw_mlx5_ctrl(GW_MLX5_MASKED_CS, idx, sq->qpn, 5, flags, 0));
    gw_mlx5_put(sq, u + 1, gw_mlx5_raddr(raddr, rkey));
    gw_mlx5_put(sq, u + 2, gw_mlx5_atomic(swap, compare));
    gw_mlx5_put(sq, u + 3, gw_mlx5_atomic(swap_mask, compare_mask));
    gw_mlx5_put(sq, u + 4, gw_mlx5_data(addr, 8, lkey));
    return 2;
}

/* Does nothing and completes; also fills the WQEBBs up to the queue's end (ds up to 63). */
GW_FN uint32_t gw_mlx5_put_nop(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t ds, uint32_t flags)
{
    gw_mlx5_put(sq, idx * GW_MLX5_UNITS_PER_BB, gw_mlx5_ctrl(GW_MLX5_NOP, idx, sq->qpn, ds, flags, 0));
    return gw_mlx5_wqebbs(ds);
}

/* A whole work request, for the general builder. Fields that the opcode does not use are ignored. */
struct gw_mlx5_wr {
    uint8_t opcode; /* enum gw_mlx5_opcode, NOP excepted */
    uint8_t flags;  /* enum gw_mlx5_ctrl_flags */
    uint8_t inl;    /* copy the payload into the WQE; the entries' keys are not used then */
    uint32_t num_sge;
    const struct gw_mlx5_sge *sge;
    uint32_t imm_be; /* immediate, or for SEND_INVAL the key, big-endian as it goes on the wire */
    uint32_t rkey;
    uint64_t raddr;
    uint64_t swap_or_add, compare;    /* MASKED_FA: compare is the fields' boundaries */
    uint64_t swap_mask, compare_mask; /* MASKED_CS */
};

/* Units in front of the payload, or 0 for an opcode that the general builder does not know. */
GW_FN uint32_t gw_mlx5_head_units(uint32_t opcode)
{
    switch (opcode) {
    case GW_MLX5_SEND:
    case GW_MLX5_SEND_IMM:
    case GW_MLX5_SEND_INVAL: return 1;
    case GW_MLX5_WRITE:
    case GW_MLX5_WRITE_IMM:
    case GW_MLX5_READ: return 2;
    case GW_MLX5_ATOMIC_CS:
    case GW_MLX5_ATOMIC_FA:
    case GW_MLX5_MASKED_FA: return 3;
    case GW_MLX5_MASKED_CS: return 4;
    default: return 0;
    }
}

/* One of the four that fetch 8 bytes and change them. */
GW_FN int gw_mlx5_is_atomic(uint32_t opcode)
{
    return gw_mlx5_head_units(opcode) >= 3;
}

/* Units that a request needs, given the units in front of its payload, or a negative errno. */
GW_FN int gw_mlx5_units_behind_(uint32_t units, const struct gw_mlx5_wr *wr)
{
    uint64_t bytes = 0;
    uint32_t n = 0, i;

    for (i = 0; i < wr->num_sge; i++) {
        if (wr->sge[i].length >> 31) return -EINVAL;
        n += wr->sge[i].length != 0;
        bytes += wr->sge[i].length;
    }
    if (gw_mlx5_is_atomic(wr->opcode) && (n != 1 || bytes < 8)) return -EINVAL;
    if (bytes > GW_MLX5_MAX_MSG) return -EMSGSIZE;
    if (wr->inl)
        units += bytes ? (uint32_t)((bytes + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT) : 0;
    else
        units += n;
    return units > GW_MLX5_MAX_DS ? -EMSGSIZE : (int)units;
}

/*
 * How many 16-byte units the request needs (its ds), so that the caller can reserve before it writes. It
 * returns -EOPNOTSUPP for an unknown opcode, and -EMSGSIZE if 63 units do not hold it. It returns -EINVAL for
 * inline payload on READ or an atomic, and for an entry of 2^31 bytes or more. The same for an atomic without
 * exactly one entry of at least 8 bytes.
 */
GW_FN int gw_mlx5_wr_units(const struct gw_mlx5_wr *wr)
{
    uint32_t units = gw_mlx5_head_units(wr->opcode);

    if (!units) return -EOPNOTSUPP;
    if (wr->inl && (gw_mlx5_is_atomic(wr->opcode) || wr->opcode == GW_MLX5_READ)) return -EINVAL;
    return gw_mlx5_units_behind_(units, wr);
}

/* The same for a request on a UD queue pair, which only sends: -EOPNOTSUPP for any other opcode. */
GW_FN int gw_mlx5_ud_units(const struct gw_mlx5_wr *wr)
{
    if (wr->opcode != GW_MLX5_SEND && wr->opcode != GW_MLX5_SEND_IMM) return -EOPNOTSUPP;
    return gw_mlx5_units_behind_(GW_MLX5_UD_HEAD, wr);
}

#include <gpuwire/detail/mlx5/inline.h>

/* The payload from unit u on: inline, or an entry for each that is not empty; `exactly` bytes of it, if not
 * 0. */
GW_FN void gw_mlx5_put_payload_(const struct gw_mlx5_sq *sq, uint32_t u, const struct gw_mlx5_wr *wr,
                                uint32_t exactly)
{
    uint32_t total = 0, i;

    if (wr->inl) {
        for (i = 0; i < wr->num_sge; i++) total += wr->sge[i].length;
        if (total) gw_mlx5_put_inline(sq, u, wr->sge, wr->num_sge, total);
        return;
    }
    for (i = 0; i < wr->num_sge; i++) {
        uint32_t len = wr->sge[i].length;

        if (len)
            gw_mlx5_put(sq, u++, gw_mlx5_data(wr->sge[i].addr, exactly ? exactly : len, wr->sge[i].lkey));
    }
}

/* From unit u on what follows the control segment: remote address, operands, payload. */
GW_FN void gw_mlx5_put_remote_(const struct gw_mlx5_sq *sq, uint32_t u, const struct gw_mlx5_wr *wr)
{
    uint32_t head = gw_mlx5_head_units(wr->opcode);

    if (head >= 2) gw_mlx5_put(sq, u++, gw_mlx5_raddr(wr->raddr, wr->rkey));
    if (head >= 3)
        gw_mlx5_put(sq, u++,
                    gw_mlx5_atomic(wr->swap_or_add, wr->opcode == GW_MLX5_ATOMIC_FA ? 0 : wr->compare));
    if (head == 4) gw_mlx5_put(sq, u++, gw_mlx5_atomic(wr->swap_mask, wr->compare_mask));
    gw_mlx5_put_payload_(sq, u, wr, head >= 3 ? 8 : 0);
}

/* Writes the whole WQE, of ds units as gw_mlx5_wr_units has told, at WQEBB idx, and returns the WQEBBs it
 * takes. */
GW_FN int gw_mlx5_put_units(const struct gw_mlx5_sq *sq, uint32_t idx, const struct gw_mlx5_wr *wr,
                            uint32_t ds)
{
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB, imm_be = 0;

    if (wr->opcode == GW_MLX5_SEND_IMM || wr->opcode == GW_MLX5_WRITE_IMM || wr->opcode == GW_MLX5_SEND_INVAL)
        imm_be = wr->imm_be;
    gw_mlx5_put(sq, u++, gw_mlx5_ctrl(wr->opcode, idx, sq->qpn, ds, wr->flags, imm_be));
    gw_mlx5_put_remote_(sq, u, wr);
    return (int)gw_mlx5_wqebbs(ds);
}

/*
 * Writes the whole WQE at WQEBB idx and returns the WQEBBs it takes (1 … 16), or what gw_mlx5_wr_units
 * returns, with nothing written. The caller has made sure that they are free. Zero-length entries are
 * skipped.
 */
GW_FN int gw_mlx5_put_wr(const struct gw_mlx5_sq *sq, uint32_t idx, const struct gw_mlx5_wr *wr)
{
    int ds = gw_mlx5_wr_units(wr);

    return ds < 0 ? ds : gw_mlx5_put_units(sq, idx, wr, (uint32_t)ds);
}

/* The same for an XRC queue pair: for the shared receive queue srqn. It takes a unit more than
 * gw_mlx5_wr_units. */
GW_FN int gw_mlx5_put_xrc(const struct gw_mlx5_sq *sq, uint32_t idx, const struct gw_mlx5_wr *wr,
                          uint32_t srqn)
{
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB, imm_be = 0;
    int ds = gw_mlx5_wr_units(wr);
    struct gw_u128 srq = {{gw_be32(srqn & 0xffffff), 0, 0, 0}};

    if (ds < 0) return ds;
    if (++ds > GW_MLX5_MAX_DS) return -EMSGSIZE;
    if (wr->opcode == GW_MLX5_SEND_IMM || wr->opcode == GW_MLX5_WRITE_IMM || wr->opcode == GW_MLX5_SEND_INVAL)
        imm_be = wr->imm_be;
    gw_mlx5_put(sq, u++, gw_mlx5_ctrl(wr->opcode, idx, sq->qpn, (uint32_t)ds, wr->flags, imm_be));
    gw_mlx5_put(sq, u++, srq);
    gw_mlx5_put_remote_(sq, u, wr);
    return (int)gw_mlx5_wqebbs((uint32_t)ds);
}

/*
 * The address vector of a UD WQE from unit u on, for QP dqpn with this Q_Key. The rest is as av has it. The
 * hardware does not look at the word that gets `mark`, and for hardware that must be 0. Returns the unit
 * after it.
 */
GW_HOT_FN uint32_t gw_mlx5_put_av(const struct gw_mlx5_sq *sq, uint32_t u,
                                  const struct gw_u128 av[GW_MLX5_AV_UNITS], uint32_t mark, uint32_t dqpn,
                                  uint32_t qkey)
{
    struct gw_u128 seg = av[0];

    seg.w[0] = gw_be32(qkey);
    seg.w[1] = mark;
    seg.w[2] = gw_be32(dqpn | GW_MLX5_AV_EXTENDED);
    gw_mlx5_put(sq, u++, seg);
    gw_mlx5_put(sq, u++, av[1]);
    gw_mlx5_put(sq, u++, av[2]);
    return u;
}

/* The same for a UD queue pair: to QP dqpn at where av says, with this Q_Key. */
GW_FN int gw_mlx5_put_ud(const struct gw_mlx5_sq *sq, uint32_t idx, const struct gw_mlx5_wr *wr,
                         const struct gw_mlx5_av *av, uint32_t dqpn, uint32_t qkey)
{
    uint32_t u = idx * GW_MLX5_UNITS_PER_BB, imm_be = wr->opcode == GW_MLX5_SEND_IMM ? wr->imm_be : 0;
    int ds = gw_mlx5_ud_units(wr);
    struct gw_u128 seg[GW_MLX5_AV_UNITS];

    if (ds < 0) return ds;
    memcpy(seg, av, sizeof(seg));
    gw_mlx5_put(sq, u++, gw_mlx5_ctrl(wr->opcode, idx, sq->qpn, (uint32_t)ds, wr->flags, imm_be));
    gw_mlx5_put_payload_(sq, gw_mlx5_put_av(sq, u, seg, 0, dqpn, qkey), wr, 0);
    return (int)gw_mlx5_wqebbs((uint32_t)ds);
}

#endif
