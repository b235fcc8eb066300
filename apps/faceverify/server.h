/* SPDX-License-Identifier: Apache-2.0 */
/* The server, as the host starts and stops it. */
#ifndef FACE_SERVER_H
#define FACE_SERVER_H

#include <stdbool.h>

#include "apps/faceverify/kernels.h"
#include "apps/faceverify/memcache_ring.h"

struct face_server_opts {
    const char *exec;    /* "auto", "cpu" or "gpu" */
    uint64_t gpu, lanes; /* which one; CPU: threads of a block */
    uint64_t blocks;     /* 0: as many as run at once */
    /* Sets of sockets, each with a thread of the host. 0: one; on a GPU a quarter of the processors. */
    uint64_t proxies;
    uint64_t conns;    /* clients at a time */
    uint64_t limit_ms; /* for memcached's answer */
    uint64_t stall_s, idle_s;
    uint32_t protocol, spread; /* enum mc_protocol, enum mc_spread */
    double threshold;
    bool rdma;                    /* clients may come over RDMA, too */
    bool recent;                  /* the kernel tells the last requests */
    struct sockaddr_storage addr; /* to listen at */
    socklen_t addr_len;
    struct mc_servers memcached;
};

/* Defaults, without addr and memcached. */
void face_server_defaults(struct face_server_opts *o);

struct face_server;

/* Starts it. 0, or a negative errno with the reason in gw_last_error. face_server_stop follows
 * in any case. */
int face_server_start(const struct face_server_opts *o, struct face_server **out);

/* Where it listens: "127.0.0.1 port 7150". And its port. */
const char *face_server_name(const struct face_server *s);
uint16_t face_server_port(const struct face_server *s);
/* What it runs on, for people. */
const char *face_server_exec(const struct face_server *s);
/* How many blocks it has. */
uint32_t face_server_blocks(const struct face_server *s);

/* All blocks' counts together, a tenth of a second old. */
void face_server_counts(const struct face_server *s, struct face_counts *sum);

/* The last requests of each block; NULL: it was not asked for. */
const struct face_recent *face_server_recent(const struct face_server *s);

/* 0 while it runs; or why it does not. */
int face_server_check(struct face_server *s);

/* Ends the kernel and all connections; the counts are complete then. 0; or how it failed. */
int face_server_halt(struct face_server *s);

/* The same if it was not done, and frees all. NULL is allowed. */
int face_server_stop(struct face_server *s);

#endif
