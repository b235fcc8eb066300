/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.h: requests that are executed by copies between processes of one host instead of packets. It also
 * has what a request packet carries when its bytes come in such a way.
 */
#ifndef SOFTNIC_OBJECT_DIRECT_H
#define SOFTNIC_OBJECT_DIRECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softnic/nic/nic.h"
#include "softnic/object/limits.h"

struct sn_qp;

/* Whose answers say what can be done without packets: processes', or for queue pairs of one NIC its own. */
struct sn_peers {
    const struct sn_peer_ops *ops; /* NULL: nothing */
    void *ctx;
};

/* An offer's payload is a list of these, in the byte order of the one host: pieces of the sender's memory as
 * its own work request names them. Not of length 0. */
enum { SN_RNDV_PIECES = 32, SN_RNDV_CHUNK = 256 << 10 };
_Static_assert((int)SN_RNDV_PIECES <= (int)SN_PEER_PIECES, "they are copied at once");
struct sn_rndv_piece {
    uint64_t va;
    uint32_t length, lkey;
};
struct sn_rndv {
    unsigned n;
    uint32_t length; /* of all */
    struct sn_rndv_piece piece[SN_RNDV_PIECES];
};

/* Of messages that are one frame instead of their packets, offered or placed. */
enum {
    SN_RNDV_WINDOW = 4 * SN_RNDV_CHUNK, /* their bytes, of a queue pair, that are not acknowledged */
    SN_RNDV_SKIP = 64,                  /* this number goes as packets once one of that kind was refused */
};

/* A request packet carries bytes, the offer of bytes, or nothing, because the bytes are in their place. */
struct sn_body {
    const uint8_t *bytes;
    const struct sn_rndv *rndv; /* or NULL */
    bool eager;
    uint32_t base; /* of what was placed: its bytes are newer than those of requests before this PSN */
    uint32_t length;
};

/* Requests that are made with one copy. */
struct sn_batch {
    struct sn_direct_item {
        struct sn_qp *qp;
        uint32_t at; /* in qp->req.ring, free-running */
        uint32_t bytes;
        bool eager;
    } item[SN_DIRECT_ITEMS];
    unsigned items;
    uint32_t bytes;
    int64_t copied; /* once it is under way: the bytes that will be, or a negative errno */
    struct sn_copying copy;
};

/*
 * Direct accesses to one peer's memory, all in one direction: a batch that gathers, and those before it,
 * which are under way and end one after the other. None of it is left whenever the lock is free.
 */
enum { SN_BATCHES = SN_BATCHES_AHEAD + 2 }; /* sn_direct_settle puts the open one on its way besides */
struct sn_direct {
    struct sn_peers peers;
    struct sn_peer *peer; /* NULL: there are none */
    bool write;
    uint32_t first, open; /* free-running: the oldest under way; the one that gathers */
    struct sn_batch batch[SN_BATCHES];
    const void *line; /* of those under way: struct sn_dma_ops */
    uint32_t joined;  /* free-running: requests */
    /* Of the one that gathers. */
    bool other_kind; /* what was to join it lies in memory that is reached in another way */
    struct sn_reach by_here, by_there;
    unsigned here_count, there_count;
    struct iovec here[SN_DIRECT_HERE], there[SN_DIRECT_ITEMS];
};

#endif
