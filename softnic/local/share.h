/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h: what processes of one host that speak to each other have in common memory.
 *
 * Each process has a *table*, which it writes and its peers read: what its NIC's memory regions and queue
 * pairs are. For each peer that it sends to it makes a *channel*, which the two of them share. A channel has
 * a ring of frames to the peer. It also says whether the process is using the peer's memory right now, and
 * which pieces of it.
 *
 * All of it is in the other's hands. What is read here is copied out once, checked, and then trusted only as
 * far as the other could do the same harm by other means.
 */
#ifndef SOFTNIC_LOCAL_SHARE_H
#define SOFTNIC_LOCAL_SHARE_H

#include <stdint.h>
#include <sys/uio.h>

#include "softnic/nic/nic.h"

enum {
    SN_SHARE_VERSION = 8,
    SN_SHARE_QUEUES = 1 << 16,  /* by the lower half of their numbers */
    SN_SHARE_REGIONS = 1 << 16, /* by their key's index; those beyond are reached by packets only */
    SN_SHARE_KEY_SHIFT = 12,    /* of a key's index, as region/mr.c has it */
    SN_SHARE_FRAMES = 256,      /* in a channel's ring; power of two */
    SN_SHARE_PIECES = SN_PEER_PIECES,
};
#define SN_SHARE_TABLE_MAGIC   UINT64_C(0x31454c4241545747) /* "GWTABLE1" */
#define SN_SHARE_CHANNEL_MAGIC UINT64_C(0x314e4e4148435747) /* "GWCHANN1" */

/* seq: odd while the entry is being written. */
struct sn_share_queue {
    uint32_t seq, qpn; /* qpn 0: takes no requests */
    uint32_t dest_qpn, access, pd;
    uint32_t psn, mtu, pkey, reads; /* struct sn_peer_terms */
    uint64_t gid[2];
    uint64_t unused;
};
_Static_assert(sizeof(struct sn_share_queue) == 64, "one cache line");

struct sn_share_region {
    uint32_t seq, key; /* key 0: none */
    uint64_t iova, addr, length;
    uint32_t access, pd;
    uint32_t gpu; /* not 0: GPU memory, of which `gpu` of the table tells at the same place */
    uint32_t unused[3];
};

struct sn_table {
    struct {
        uint64_t magic;
        uint32_t version, slot;
        /* The owner has this number at this place in its own memory. A peer that reads it there by process
         * number has the right process, and may read its memory. */
        uint64_t nonce, nonce_addr;
        uint32_t sleeps; /* odd: no thread looks at rings until a byte comes over the socket */
        uint32_t paused; /* not 0: everything is to come over the wire */
    } head __attribute__((aligned(4096)));
    struct sn_share_queue queue[SN_SHARE_QUEUES] __attribute__((aligned(4096)));
    struct sn_share_region region[SN_SHARE_REGIONS] __attribute__((aligned(4096)));
    struct sn_gpu_share gpu[SN_SHARE_REGIONS] __attribute__((aligned(4096))); /* under its region's seq */
};

struct sn_share_frame {
    uint32_t len, rndv; /* offer: as in struct sn_frame */
    uint8_t data[SN_FRAME_MAX];
} __attribute__((aligned(64)));

struct sn_channel {
    uint64_t magic;
    uint32_t version, slots;
    uint32_t pulls;                              /* the maker can copy from the taker's memory */
    uint32_t epoch __attribute__((aligned(64))); /* of the maker: odd while it uses the taker's memory */
    uint32_t ungated; /* of the maker: the access in which it copied in a way that cannot be taken back */
    uint32_t revoked __attribute__((aligned(64))); /* of the taker: an access that it has taken back */
    struct iovec there[SN_SHARE_PIECES];           /* of the taker's memory: what the maker copies: gate.h */
    uint32_t tail __attribute__((aligned(64)));    /* frames put in, free-running: the maker's */
    uint32_t head __attribute__((aligned(64)));    /* and taken out: the taker's */
    struct sn_share_frame frame[SN_SHARE_FRAMES];
};

#endif
