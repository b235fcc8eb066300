/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlx5.h: what a ConnectX and its driver write into each other's memory.
 *
 * Pure functions and layouts: builders for send and receive work-queue entries (WQEs), completion entries
 * (CQEs), and the values of doorbell records and registers. The same source runs on the host and in kernels.
 * Nothing here orders memory or rings anything: builders use plain stores, and who posts publishes
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
 * Where a datagram goes: the address vector of a UD WQE (mlx5_wqe_av), as it stands there. libmlx5 makes one
 * for each address handle (mlx5dv_init_obj, MLX5DV_OBJ_AH); key and number are each request's own.
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

/* ---- send queue --------------------------------------------------------------------------------------- */

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

/* The n-th unit of a WQE at WQEBB idx, one of the first four: those of one WQEBB lie behind each other. */
GW_FN void gw_mlx5_put_nth_(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t n, struct gw_u128 seg)
{
    gw_store16((uint8_t *)sq->buf + (size_t)(idx & (sq->wqebbs - 1)) * GW_MLX5_WQEBB + n * GW_MLX5_UNIT, seg);
}

/*
 * The three lean builders: at most one data segment, one WQEBB, no loop. idx is the WQE's first WQEBB (any
 * 32-bit counter; only its low bits count). len 0 makes a message without payload. They return the WQEBBs
 * used: 1.
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
 * MASKED_FA adds field by field: each bit set in `compare` is the highest of a field, and nothing is carried
 * out of it; the topmost field needs no mark.
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
 * of swap. What was there before arrives at addr. Two WQEBBs.
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

/* Units that a request with so many in front of its payload needs, or a negative errno. */
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
 * How many 16-byte units the request needs (its ds), so that the caller can reserve before it writes.
 * -EOPNOTSUPP: unknown opcode. -EINVAL: inline payload on READ or an atomic; an atomic without exactly one
 * entry of at least 8 bytes; an entry of 2^31 bytes or more. -EMSGSIZE: does not fit into 63 units.
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

/* Words on their way into a queue, four to a store. A shift register, so that a GPU keeps it in registers. */
struct gw_mlx5_words {
    uint32_t unit; /* where the next four go */
    uint32_t count;
    struct gw_u128 last;
};

GW_FN void gw_mlx5_push(const struct gw_mlx5_sq *sq, struct gw_mlx5_words *q, uint32_t word)
{
    q->last.w[0] = q->last.w[1];
    q->last.w[1] = q->last.w[2];
    q->last.w[2] = q->last.w[3];
    q->last.w[3] = word;
    if ((++q->count & 3) == 0) gw_mlx5_put(sq, q->unit++, q->last);
}

/* Few bytes, to any address. */
GW_FN void gw_mlx5_copy_(uint8_t *to, const uint8_t *from, uint32_t n)
{
    for (; n >= 16; n -= 16, to += 16, from += 16) memcpy(to, from, 16);
    if (n & 8) memcpy(to, from, 8), to += 8, from += 8;
    if (n & 4) memcpy(to, from, 4), to += 4, from += 4;
    if (n & 2) memcpy(to, from, 2), to += 2, from += 2;
    if (n & 1) *to = *from;
}

/* As gw_mlx5_put_inline, where all of it lies in front of the queue's end and stores may go anywhere. */
GW_FN void gw_mlx5_put_inline_flat_(uint8_t *to, const struct gw_mlx5_sge *sge, uint32_t num_sge,
                                    uint32_t total, uint32_t units)
{
    struct gw_u128 zero = {{0, 0, 0, 0}};
    uint32_t header = gw_be32(total | 0x80000000u), i;

    gw_store16(to + (units - 1) * GW_MLX5_UNIT, zero); /* the padding, and more */
    memcpy(to, &header, sizeof(header));
    to += sizeof(header);
    for (i = 0; i < num_sge; to += sge[i++].length)
        gw_mlx5_copy_(to, (const uint8_t *)(uintptr_t)sge[i].addr, sge[i].length);
}

/* Copies the entries' bytes behind an inline header of `total` bytes, zero-padded, unit by unit across the
 * end. */
GW_FN void gw_mlx5_put_inline(const struct gw_mlx5_sq *sq, uint32_t unit, const struct gw_mlx5_sge *sge,
                              uint32_t num_sge, uint32_t total)
{
    uint32_t units = (total + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT, all = sq->wqebbs * GW_MLX5_UNITS_PER_BB;
    struct gw_mlx5_words q = {unit, 0, {{0, 0, 0, 0}}};
    uint32_t word = 0, bits = 0, i, k;

    if (GW_UNALIGNED_STORES && (unit & (all - 1)) + units <= all) {
        gw_mlx5_put_inline_flat_((uint8_t *)gw_mlx5_sq_at(sq, unit), sge, num_sge, total, units);
        return;
    }
    gw_mlx5_push(sq, &q, gw_be32(total | 0x80000000u));
    for (i = 0; i < num_sge; i++) {
        const uint8_t *src = (const uint8_t *)(uintptr_t)sge[i].addr;

        for (k = 0; k < sge[i].length;) {
            if (!bits && sge[i].length - k >= 4) { /* whole words, as long as the entries' ends allow */
                memcpy(&word, src + k, 4);
                bits = 32;
                k += 4;
            } else {
                word |= (uint32_t)src[k++] << bits;
                bits += 8;
            }
            if (bits < 32) continue;
            gw_mlx5_push(sq, &q, word);
            word = bits = 0;
        }
    }
    if (bits) gw_mlx5_push(sq, &q, word);
    while (q.count & 3) gw_mlx5_push(sq, &q, 0);
}

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
 * returns, with nothing written. The caller has made sure that so many are free. Zero-length entries are
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
 * The address vector of a UD WQE from unit u on, for QP dqpn with this Q_Key; the rest is as av has it. mark goes into a
 * word that the hardware does not look at and that must be 0 for it. Returns the unit behind it.
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

/* ---- memory windows ----------------------------------------------------------------------------------- */

/* What a window grants: bits of a key's access flags. */
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

/* What IBV_WR_BIND_MW and IBV_WR_LOCAL_INV ask for, in the form in which libmlx5 writes it. */
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

/* ---- receive queue ------------------------------------------------------------------------------------ */

/* A receive queue's memory: wqes is a power of two; stride is a power of two of at least 16 bytes. */
struct gw_mlx5_rq {
    void *buf;
    uint32_t wqes;
    uint32_t stride;
};

/*
 * Writes the idx-th receive WQE. Zero-length entries are skipped; a list shorter than max_sge (the queue's,
 * at most stride / 16) is ended. 0, or -EINVAL: more than max_sge entries, or one of 2^31 bytes or more.
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
 * data comes behind. The queue's user links the entries, so that any of them may be the next.
 */
GW_FN struct gw_u128 gw_mlx5_srq_next(uint32_t next_idx)
{
    struct gw_u128 s = {{gw_be32(next_idx & 0xffff), 0, 0, 0}};
    return s;
}

/*
 * Writes entry idx of a shared receive queue (memory as of a receive queue), but for its link. As libmlx5
 * does it writes zero-length entries too, which hardware reads as 2^31 bytes. max_sge: the queue's, at most
 * stride / 16 - 1. 0, or -EINVAL as gw_mlx5_put_recv.
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

/* What the CQ register takes: the arm word, then the CQ's number, as one 8-byte big-endian store. */
GW_FN uint64_t gw_mlx5_cq_db_be(uint32_t arm_be, uint32_t cqn)
{
    return (uint64_t)gw_be32(cqn & 0xffffff) << 32 | arm_be;
}

/* What a send doorbell register takes when the WQE's own first 8 bytes are not at hand: next index and queue
 * pair. */
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

/* ---- completion queue --------------------------------------------------------------------------------- */

enum gw_mlx5_cqe_opcode {
    GW_MLX5_CQE_REQ = 0,
    GW_MLX5_CQE_RESP_WR_IMM = 1,
    GW_MLX5_CQE_RESP_SEND = 2,
    GW_MLX5_CQE_RESP_SEND_IMM = 3,
    GW_MLX5_CQE_RESP_SEND_INV = 4,
    GW_MLX5_CQE_REQ_ERR = 13,
    GW_MLX5_CQE_RESP_ERR = 14,
    GW_MLX5_CQE_INVALID = 15, /* nobody has written this entry yet */
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
    uint32_t flags_rqpn_be; /* bits 29:28 GRH present, 27:24 SL, 23:0 source QP */
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

/* A completion, decoded. */
struct gw_mlx5_wc {
    uint8_t opcode;     /* enum gw_mlx5_cqe_opcode */
    uint8_t wqe_opcode; /* requester: of the WQE that this one reports */
    uint8_t syndrome;   /* errors: enum gw_mlx5_syndrome */
    uint8_t vendor;     /* errors: the device's own code */
    uint8_t solicited;
    uint8_t scatter; /* 0, GW_MLX5_CQE_SCATTER_32 or _64 */
    uint8_t grh;
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
 * ours? op_own is its last byte, read once. When this says yes, an acquire barrier must stand before the rest
 * is read: it forbids reads of the other 63 bytes to be satisfied before the owner bit was seen.
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
 * Fills bytes 0 … 62 and returns the last one, which the caller stores with release order once the payload is
 * visible: that forbids a poller to see the owner bit before the bytes it stands for.
 */
GW_FN uint8_t gw_mlx5_cqe_build(struct gw_mlx5_cqe *cqe, const struct gw_mlx5_wc *wc, uint32_t pi,
                                uint32_t cqe_cnt)
{
    uint8_t *bytes = (uint8_t *)cqe;
    uint32_t i;

    for (i = wc->scatter == GW_MLX5_CQE_SCATTER_32 ? 32 : 0; i < 63; i++) bytes[i] = 0;
    if (wc->scatter != GW_MLX5_CQE_SCATTER_32)
        cqe->flags_rqpn_be = gw_be32((wc->src_qp & 0xffffff) | (wc->grh ? 1u << 28 : 0));
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
#define GW_MLX5_LAYOUT(cond) _Static_assert(cond, #cond)
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
