/* SPDX-License-Identifier: Apache-2.0 */
/* The server's kernels, as the host launches them, and the memory they work in. */
#ifndef FACE_KERNELS_H
#define FACE_KERNELS_H

#include <gpuwire/socket.h>

#include "apps/faceverify/face.h"
#include "apps/faceverify/memcache_link.h"
#include "apps/faceverify/memcache_spread.h"
#include "apps/faceverify/recent.h"

enum {
    FACE_NETS_MAX = 16,
    FACE_SLOTS = MC_OWED_MAX, /* requests of a block that wait for memcached */
    FACE_BUFFER = (FACE_REQUEST_MAX + 63) / 64 * 64,
};

/* What a block counts. The host sees it a tenth of a second late. */
struct face_counts {
    uint64_t requests, verdicts[FACE_VERDICTS];
    uint64_t clients, lost; /* connections accepted; those that a client's fault has ended */
    uint64_t links_failed;
    uint64_t ns[FACE_POINTS]; /* sums, of requests that were compared: from the point before to this one */
};

/* A client's connection. */
enum face_conn_state {
    FACE_CONN_FREE,
    FACE_CONN_OPEN,
    FACE_CONN_ENDING, /* the client sends no more; it still gets what it waits for */
    FACE_CONN_DRAIN,  /* it has sent nonsense and got its answer: what it still sends is dropped */
};
struct face_conn {
    int fd;
    uint32_t state, uses; /* uses: counts the clients that had this place */
    uint32_t have, want;  /* bytes of the request in its buffer, and of the whole request */
    uint32_t begun;       /* the request is whole, and has its slot; the buffer is still needed */
    uint32_t waits;       /* requests without a reply */
    uint64_t since_ns;    /* of the last byte, or reply */
};

/* A request that waits for memcached. */
struct face_slot {
    struct face_histogram histogram __attribute__((aligned(16))); /* of its picture */
    uint32_t conn, uses;                                          /* whose; face_conn.uses at that time */
    uint32_t server, opaque, key_len;
    uint64_t id, name_hash, until_ns, ns[FACE_POINTS];
    char key[FACE_KEY_MAX];
};

struct face_block {
    uint32_t used, fresh; /* masks of slots: waiting; without a histogram yet */
    uint32_t conns;       /* clients connected */
    uint32_t full;        /* requests that are whole and have no slot yet */
    uint32_t opaque;      /* of the next question */
    uint32_t value;       /* of the value to compare: where it lies in its link's `in` */
    uint32_t unsettled;   /* 1: a connection to a memcached is not there, or was not a moment ago */
    uint64_t tick_ns, look_ns;
    struct face_counts counts;
    struct face_recent_pen pen;
};

/* Arrays have an entry for each block, or `conns` or `servers` of them. */
struct face_args {
    struct gw_net *net[FACE_NETS_MAX]; /* block i uses set i % nets, and its listener */
    uint32_t nets;
    struct gw_net
        *clients;  /* the set of all clients, with the only listener; NULL: they are in those above */
    uint32_t rdma; /* enum gw_sock_rdma, of the listeners */
    int *listener;
    struct sockaddr_storage addr; /* to listen at */
    socklen_t addr_len;
    int *err; /* of listening */
    struct sockaddr_storage *name;
    socklen_t *name_len;

    struct mc_ring ring;
    const struct mc_host *host;
    struct mc_link *link;
    struct face_block *block;
    struct face_conn *conn;
    struct face_slot *slot;
    struct pollfd *fds;
    uint8_t *buffer;
    uint32_t *open;             /* clients of each set */
    uint32_t *stop;             /* of the host's: 1: end */
    struct face_counts *counts; /* what the host reads */
    struct face_recent *recent; /* the same; NULL: the host does not ask */
    uint32_t conns, conns_max;  /* of a block; of a set */
    uint32_t protocol;          /* enum mc_protocol */
    float threshold;
    uint64_t limit_ns, stall_ns, idle_ns; /* for memcached's answer; in mid-request; between requests */
};

#endif
