/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: what the server's kernels and its host side share. */
#ifndef MATMUL_SERVER_H
#define MATMUL_SERVER_H

#include <gpuwire/socket.h>

#include "product.h"

#define MM_NETS_MAX 16 /* sets of sockets, each with a proxy thread of its own */
#define MM_CLASSES  7  /* of buffers: matrices of up to 64, 128, … 4096 */
#define MM_NONE     0xffffffffu

/* What a connection is doing. */
enum mm_state {
    MM_HEAD,    /* receives a request's header */
    MM_ROOM,    /* waits for a buffer */
    MM_BODY,    /* receives A and B */
    MM_COMPUTE, /* waits for the blocks that compute */
    MM_DROP,    /* drops the A and B of a request that finds no room */
    MM_ANSWER,  /* sends an answer */
    MM_LAST,    /* has answered for the last time: drops what comes, until the client closes */
};

/* A connection, in the table of the block that serves it. */
struct mm_conn {
    int32_t s;
    uint32_t state; /* enum mm_state */
    uint32_t job;   /* its buffer, or MM_NONE */
    uint32_t last;  /* the answer is the last one */
    uint64_t done;  /* bytes of header, body or answer that have moved */
    uint64_t since; /* when it began to do this, on the block's clock */
    struct mm_request head;
    struct mm_answer answer;
};

/* A buffer for a request's matrices, and the work on them. */
struct mm_job {
    uint64_t tiles;    /* how many tiles C has << 32 | how many blocks have taken */
    uint32_t taken;    /* 1: a connection has it */
    uint32_t computed; /* tiles */
    uint32_t finished; /* C is complete */
    uint32_t reserved;
    struct mm_product product; /* A, then B, then room for struct mm_answer, then C */
};

struct mm_class {
    uint8_t *base;
    uint64_t bytes; /* of a buffer */
    uint32_t first, count;
};

/* What the server has done. In memory of the executor. */
struct mm_counts {
    uint64_t accepted, closed;
    uint64_t answered; /* MM_OK */
    uint64_t busy, refused;
    uint64_t dropped; /* connections that failed, or whose client was silent for too long */
    /* How long requests were in each state, all together; MM_COMPUTE: in the independent design, too. */
    uint64_t ns[MM_LAST + 1];
};

struct mm_server_args {
    struct gw_net *net[MM_NETS_MAX];
    uint32_t nets;
    uint32_t io_blocks; /* all: each block also computes; else the first ones serve, and the others compute */
    const uint32_t *stop; /* the host's word: not 0: end */
    struct mm_conn *conns;
    struct pollfd *fds;
    uint32_t per_block;  /* connections of a block, at most */
    uint32_t largest;    /* n */
    uint32_t *active;    /* connections of each set */
    int32_t *listener;   /* of each set */
    struct mm_job *jobs; /* of all classes */
    uint64_t *queue;     /* jobs to compute: their place in the queue + 1 << 32 | job; queue_size of them */
    uint64_t *queued;    /* how many have been put into it */
    uint32_t queue_size, reserved;
    struct mm_class classes[MM_CLASSES];
    struct mm_counts *counts;
    uint64_t body_ns, idle_ns,
        room_ns;     /* limits: for A and B, and for an answer; between requests; for a buffer */
    int32_t *result; /* of mm_listen: an errno, or 0 */
    uint16_t *port;  /* where it listens */
    uint32_t rdma;   /* enum gw_sock_rdma */
    socklen_t addr_len;
    struct sockaddr_storage addr;
};

GW_KERNEL_DECLARE(mm_listen);
GW_KERNEL_DECLARE(mm_serve);

#endif
