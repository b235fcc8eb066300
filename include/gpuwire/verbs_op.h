/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_op.h: operations: what a kernel asks of the NIC. Included by verbs_device.h.
 *
 * These are pure functions for any thread: they make an operation and post nothing. To post it, call
 * gw_post_op (verbs_device.h), under a name of the caller's, or gw_tx_post (verbs_tx.h), through a view and
 * with a ticket.
 *
 * Local memory is [laddr, laddr + len) under lkey, the peer's is [raddr, raddr + len) under rkey. Addresses
 * are as the regions were registered (gw_mr.addr + offset). A length is at most 2^30 bytes; 0: no payload.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_VERBS_OP_H
#define GPUWIRE_VERBS_OP_H

/* One operation, as the functions below make it; its fields are theirs. */
struct gw_op {
    uint32_t opcode; /* enum gw_mlx5_opcode; GW_OP_TO_ with a destination of its own */
    uint32_t bbs;    /* WQEBBs: 1; 2 with a signal or datagram's payload, and for a masked compare and swap */
    uint64_t laddr, raddr;
    uint32_t lkey, rkey;
    uint32_t len, imm;
    /* Atomics: swap or addend, and compare or boundary. Signal: its address and addend. Datagram: a is the
     * Q_Key (rkey the queue pair, raddr where the address handle lies). */
    uint64_t a, b;
    uint64_t swap_mask, compare_mask;
    uint32_t signal_rkey;
};

/* WRITE: from here to the peer. */
GW_FN struct gw_op gw_put_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len);

/* WRITE with an immediate (host order): gw_with_imm(gw_put_op(…), imm). */
GW_FN struct gw_op gw_put_imm_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len,
                                 uint32_t imm);

/* READ: from the peer to here. */
GW_FN struct gw_op gw_get_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len);

/* SEND: into the peer's next receive. */
GW_FN struct gw_op gw_send_op(uint64_t laddr, uint32_t lkey, uint32_t len);

/*
 * SEND of a datagram, on a UD queue pair (verbs_ud.h). It goes into the next receive of queue pair qpn at
 * *ah, which is read when the operation is posted. The key is the receiver's. With GW_MLX5_QKEY_OF_QP set in
 * qkey, the sender's own goes instead (the InfiniBand rule for privileged keys). In a warp or block either
 * all operations have payload or none has, if they are posted through views.
 */
GW_FN struct gw_op gw_send_to_op(const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey, uint64_t laddr,
                                 uint32_t lkey, uint32_t len);

/*
 * Adds to the 8 bytes at raddr (aligned to 8). The value from before arrives at laddr, as it lay in memory.
 *
 * Atomics are atomic among the requests of the peer's NIC, and nothing else. A store or atomic of the peer's
 * GPU or CPU (atomicAdd, __atomic_fetch_add) or of another NIC can get lost, or make this one get lost. Let
 * one side change the word, and the others only read it.
 */
GW_FN struct gw_op gw_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                   uint64_t add);

/* Writes swap to the 8 bytes at raddr if they equal compare. The value from before arrives at laddr. */
GW_FN struct gw_op gw_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                  uint64_t compare, uint64_t swap);

/*
 * Adds field by field: each bit set in field_boundary is the highest of a field, and no carry leaves a field.
 * 0 is gw_fetch_add_op.
 *
 * Masked atomics are ConnectX's own. In posting mode proxy-post they are refused (-EOPNOTSUPP), and an older
 * ConnectX completes them with an error. The peer must be such a device too, or a software NIC.
 */
GW_FN struct gw_op gw_masked_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                          uint64_t add, uint64_t field_boundary);

/* ---- additions ----------------------------------------------------------------------------------------- */

/* A put or send that also carries an immediate (host order). It takes a receive at the peer and completes
 * there; the peer reads it with gw_wc_imm. */
GW_FN struct gw_op gw_with_imm(struct gw_op op, uint32_t imm);

/*
 * A put, and after it a fetch and add: the NIC adds `add` to the 8 bytes at raddr (aligned to 8). That is a
 * second request under the same name or ticket; the value from before goes nowhere. The peer polls the 8
 * bytes, with acquire order. Once they have grown by `add`, it sees the put, and every earlier request of
 * this queue pair.
 *
 * A WRITE would not do: a NIC may place a WRITE before the payload of an earlier one, with relaxed ordering
 * or where packets take several paths. No WRITE overtakes an atomic.
 *
 * The peer's region must allow atomics (GW_MR_REMOTE_ATOMIC). The peer may read the word and nothing more:
 * its threads' own stores and atomics there are not atomic with the NIC's (see gw_fetch_add_op). So let the
 * word count up, and keep what was seen elsewhere. Where the device has no atomics, posts return -EOPNOTSUPP:
 * let the peer wait for a completion (gw_with_imm).
 */
GW_FN struct gw_op gw_with_signal(struct gw_op put, uint64_t raddr, uint32_t rkey, uint64_t add);

/* A compare and swap (gw_cmp_swap_op) that compares only the bits of compare_mask and writes only those of
 * swap_mask. Masked, as gw_masked_fetch_add_op says. It takes two WQEBBs of the queue. */
GW_FN struct gw_op gw_with_masks(struct gw_op cmp_swap, uint64_t compare_mask, uint64_t swap_mask);

#endif
