/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h: what the kernels of a communicator share with its host and its NIC. Included by collective.h;
 * names that end in _ are private.
 *
 * Between two ranks there is a pipe for each block, in each direction. A pipe carries messages, which are
 * numbered. Message m goes into slot m % slots at the receiver. The receiver tells the sender how many it
 * has taken, each time these are half of the slots. So the sender may always have slots / 2 + 1 under way.
 *
 * A message is written into a slot of the sender's first, and put from there: when the receiver has taken
 * it, the sender's slot is free, too. Slots are of two kinds. The small ones lie where latency is best,
 * the large ones where the bandwidth is. The message's size says which kind it uses.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_STATE_H
#define GPUWIRE_DETAIL_COLLECTIVE_STATE_H

#define GW_COMM_VERSION 1

enum {
    GW_COLL_SLOTS_ = 4,                  /* of a pipe */
    GW_COLL_TELL_ = GW_COLL_SLOTS_ / 2,  /* taken messages that the sender is told of at a time */
    GW_COLL_AHEAD_ = GW_COLL_SLOTS_ / 2, /* messages that a rank sends before it takes the first */
    GW_COLL_LINE_ = 128,                 /* bytes that two writers do not share */
    GW_COLL_HEAD_ = 64,                  /* bytes of a slot before the payload, which is aligned to this */
};

/* At the beginning of a slot. */
struct gw_coll_head_ {
    uint64_t number; /* of the message */
    uint32_t bytes;  /* of payload */
    uint32_t tag;    /* of the call */
};

/* One block's words for one peer, in memory that the peers' NICs add to. A line has one writer. */
struct gw_coll_words_ {
    uint64_t arrived; /* messages that the peer has sent */
    uint8_t pad0[GW_COLL_LINE_ - 8];
    uint64_t credit; /* messages of ours that the peer has taken */
    uint8_t pad1[GW_COLL_LINE_ - 8];
};

/* Before the words: one for the whole communicator. */
struct gw_coll_front_ {
    uint64_t fault; /* gw_coll_fault_: written by the first that fails: a kernel, the host, or a peer's NIC */
    uint8_t pad0[GW_COLL_LINE_ - 8];
    uint64_t tell; /* what peers are told: put from here into their `fault` */
    uint64_t sink; /* where answers that do not matter go */
    uint8_t pad1[GW_COLL_LINE_ - 16];
};

/* A block's pipes to and from one peer. One thread of the block at a time works on it. */
struct gw_pipe_ {
    struct gw_qp_handle *qp; /* NULL: this rank itself */
    uint64_t there_words;    /* struct gw_coll_words_ at the peer */
    uint64_t there_front;
    uint64_t there_small, there_large; /* slots at the peer that are ours */
    uint32_t small_rkey, large_rkey;
    uint64_t sent, taken; /* messages */
    uint64_t told;        /* taken messages that the peer has been told of */
    uint64_t ticket;      /* of the last post */
    uint64_t got, credit; /* without atomics: what completions have told */
    uint64_t pad[3];
};

/* Registered memory of the program's. */
struct gw_coll_buffer_ {
    uint8_t *base; /* NULL: none */
    uint64_t length;
    uint64_t addr; /* as the NIC names it */
    uint32_t lkey;
    uint32_t pad;
    const uint64_t *there; /* of each rank: its address, */
    const uint32_t *rkey;  /* and key */
};

struct gw_comm_handle {
    uint32_t size, version;
    uint32_t rank, ranks;
    uint32_t blocks;
    uint32_t immediate; /* no atomics: completions carry what signals carry elsewhere */
    uint32_t way;
    uint32_t small, large; /* bytes of payload in a slot */
    uint32_t small_lkey, large_lkey;
    uint32_t direct;              /* bytes for a peer from which on registered memory is used as such */
    struct gw_pipe_ *pipe;        /* [block * ranks + peer] */
    struct gw_coll_front_ *front; /* and after it */
    struct gw_coll_words_ *words; /* [block * ranks + peer] */
    uint8_t *recv_small, *send_small, *recv_large,
        *send_large;                                       /* slots: [(block * ranks + peer) * slots + i] */
    uint64_t front_addr, send_small_addr, send_large_addr; /* as the NIC names them */
    struct gw_cq_handle **recv_cq;                         /* of each block */
    uint64_t *meet;                                        /* blocks that have come to a gw_coll_sync */
    struct gw_coll_buffer_ buffer[GW_COMM_MAX_BUFFERS];
};

/* Who is to blame, with which errno, and whether a peer says so. 0: all is well. */
GW_FN uint64_t gw_coll_fault_(int err, uint32_t rank, uint32_t from_peer)
{
    return (uint64_t)from_peer << 63 | (uint64_t)(uint32_t)-err << 32 | (uint32_t)(rank + 1);
}

/* The place of a pipe among all of them. */
GW_FN uint64_t gw_pipe_index_(const struct gw_comm_handle *h, uint32_t block, uint32_t peer)
{
    return (uint64_t)block * h->ranks + peer;
}

/* Bytes from the first slot to slot i of a pipe. */
GW_FN uint64_t gw_slot_at_(uint64_t pipe, uint64_t message, uint32_t payload)
{
    return (pipe * GW_COLL_SLOTS_ + message % GW_COLL_SLOTS_) * ((uint64_t)payload + GW_COLL_HEAD_);
}

#endif
