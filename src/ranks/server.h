/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's server: a thread with a connection to every rank, rank 0's own among them. */
#ifndef SRC_RANKS_SERVER_H
#define SRC_RANKS_SERVER_H

#include <stdint.h>

struct gw_ranks_server;

struct gw_ranks_server_attr {
    uint32_t size;
    int listener;       /* -1: all ranks are here already */
    int own;            /* the server's end of rank 0's own connection */
    const char *secret; /* up to GW_RANKS_SECRET - 1 bytes */
};

/* The server owns both descriptors from the call on, also when it fails: negative errno with a line. */
int gw_ranks_server_start(const struct gw_ranks_server_attr *attr, struct gw_ranks_server **out);

/* Waits until all ranks have left or died, or until the deadline (-ETIMEDOUT), and frees it. NULL is
 * allowed. */
int gw_ranks_server_stop(struct gw_ranks_server *server, uint64_t deadline_ns);

#endif
