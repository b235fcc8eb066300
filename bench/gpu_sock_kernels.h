/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gpu_sock_bench. Connections have numbers, which the side that connects sends first, so that
 * both sides know them; block b of B has those that are b modulo B. */
#ifndef GPUWIRE_BENCH_GPU_SOCK_KERNELS_H
#define GPUWIRE_BENCH_GPU_SOCK_KERNELS_H

#include <gpuwire/socket.h>

/* A connection begins with these. Of a cache line's size, so that what follows lies in the rings as it does
 * here. */
struct hello {
    uint32_t number, reserved[15];
};

struct side_args {
    struct gw_net *net;
    struct sockaddr_storage own, addr; /* where it listens, or connects from; and to */
    socklen_t len;
    uint32_t conns;
    uint64_t size, count; /* bytes of a send; sends on each connection */
    uint8_t *bytes;       /* size per block */
    uint64_t patience_ns;
    int32_t *sock;     /* of each connection, in the kernels' memory */
    int32_t *listener; /* this and what follows: in memory of the host */
    struct sockaddr *name;
    socklen_t *name_len;
    int64_t *err; /* one per block */
};

struct raw_args {
    struct gw_qp_handle *qp;
    uint64_t laddr, raddr; /* as the work request has them */
    uint64_t *out, *in;    /* the last 8 bytes of the ball that leaves, and of the one that comes */
    uint32_t lkey, rkey, len;
    uint64_t count, limit_ns;
    int64_t *err;
};

#endif
