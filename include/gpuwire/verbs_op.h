/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_op.h: the operations of the fast calls (verbs_tx.h), as any thread makes them; pure functions, which post nothing.
 * Lengths are bytes. Included by verbs_device.h; names that end in _ are private.
 */
#ifndef GPUWIRE_VERBS_OP_H
#define GPUWIRE_VERBS_OP_H

/* One operation, as the functions below make it. len is at most 2^30 bytes; 0: no payload. */
struct gw_op {
    uint32_t opcode; /* enum gw_mlx5_opcode */
    uint32_t bbs;    /* WQEBBs: 1; 2 with a signal or datagram's payload, and for a masked compare and swap */
    uint64_t laddr, raddr;
    uint32_t lkey, rkey;
    uint32_t len, imm;
    /* Atomics: swap or addend, and compare or boundary. Signal: its address and value. Datagram: a is the Q_Key (rkey
     * the queue pair, raddr where the address handle lies). */
    uint64_t a, b;
    uint64_t swap_mask, compare_mask;
    uint32_t signal_rkey;
};

GW_HOT_FN struct gw_op gw_op_(uint32_t opcode, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                              uint32_t len)
{
    struct gw_op op;

    op.opcode = opcode;
    op.bbs = 1;
    op.laddr = laddr;
    op.raddr = raddr;
    op.lkey = lkey;
    op.rkey = rkey;
    op.len = len;
    op.imm = op.signal_rkey = 0;
    op.a = op.b = op.swap_mask = op.compare_mask = 0;
    return op;
}

/* WRITE. */
GW_FN struct gw_op gw_put_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len);
}

/* WRITE with immediate (host order), which takes a receive at the peer. */
GW_FN struct gw_op gw_put_imm_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len,
                                 uint32_t imm)
{
    struct gw_op op = gw_op_(GW_MLX5_WRITE_IMM, laddr, lkey, raddr, rkey, len);

    op.imm = gw_be32(imm);
    return op;
}

/* READ. */
GW_FN struct gw_op gw_get_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_READ, laddr, lkey, raddr, rkey, len);
}

/*
 * WRITE, and behind it a WRITE of 8 bytes, `value`, to signal_raddr: a second request of the same ticket. The
 * peer may poll for the value where writes to that memory are placed in order (see docs/verbs.md); where they
 * are not, it must wait for a completion (gw_put_imm_op).
 */
GW_FN struct gw_op gw_put_signal_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                    uint32_t len, uint64_t signal_raddr, uint32_t signal_rkey, uint64_t value)
{
    struct gw_op op = gw_op_(GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len);

    op.bbs = 2;
    op.a = signal_raddr;
    op.b = value;
    op.signal_rkey = signal_rkey;
    return op;
}

/* Adds to the 8 bytes at raddr (aligned to 8); what was there before arrives at laddr, as it lay in memory.
 */
GW_FN struct gw_op gw_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint64_t add)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    return op;
}

/* Writes swap there if compare is what is there; what was there before arrives at laddr. */
GW_FN struct gw_op gw_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                  uint64_t compare, uint64_t swap)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_CS, laddr, lkey, raddr, rkey, 8);

    op.a = swap;
    op.b = compare;
    return op;
}

/*
 * The masked ones are ConnectX's own: in posting mode proxy-post they are refused (-EOPNOTSUPP), and an older ConnectX
 * completes them with an error. The peer must be such a device too, or a software NIC.
 *
 * Adds field by field: each bit set in field_boundary is the highest of a field, and nothing is carried out
 * of it; 0 is gw_fetch_add_op.
 */
GW_FN struct gw_op gw_masked_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                          uint64_t add, uint64_t field_boundary)
{
    struct gw_op op = gw_op_(GW_MLX5_MASKED_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    op.b = field_boundary;
    return op;
}

/* If what is there equals compare in the bits of compare_mask, its bits of swap_mask become those of swap. It
 * takes two WQEBBs of the queue. */
GW_FN struct gw_op gw_masked_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                         uint64_t compare, uint64_t compare_mask, uint64_t swap,
                                         uint64_t swap_mask)
{
    struct gw_op op = gw_op_(GW_MLX5_MASKED_CS, laddr, lkey, raddr, rkey, 8);

    op.bbs = 2;
    op.a = swap;
    op.b = compare;
    op.swap_mask = swap_mask;
    op.compare_mask = compare_mask;
    return op;
}

/*
 * Datagrams, on a UD queue pair (verbs_ud.h): [laddr, laddr + len) to queue pair qpn at *ah, which is read when the
 * operation is posted; the arguments are gw_send_to's. In a warp or block either all have payload or none has.
 */
GW_FN struct gw_op gw_send_to_op(const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey, uint64_t laddr,
                                 uint32_t lkey, uint32_t len)
{
    struct gw_op op = gw_op_(GW_MLX5_SEND, laddr, lkey, (uint64_t)(uintptr_t)ah, qpn, len);

    op.bbs = gw_ud_bbs_(len);
    op.a = qkey;
    return op;
}

/* gw_send_to_op with an immediate (host order), which the receiver reads with gw_wc_imm. */
GW_FN struct gw_op gw_send_to_imm_op(const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                                     uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t imm)
{
    struct gw_op op = gw_send_to_op(ah, qpn, qkey, laddr, lkey, len);

    op.opcode = GW_MLX5_SEND_IMM;
    op.imm = gw_be32(imm);
    return op;
}

#endif
