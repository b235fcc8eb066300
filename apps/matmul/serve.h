/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h: the server of matrix products, as a host program starts it. */
#ifndef MATMUL_SERVE_H
#define MATMUL_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "server.h"

/* 0 of a field: the value in parentheses. */
struct mm_server_opts {
    const char *exec;             /* "cpu", "gpu" or "auto" */
    struct sockaddr_storage addr; /* to listen at */
    socklen_t addr_len;
    bool daemon;   /* some blocks serve, the others compute; else each does both */
    uint32_t rdma; /* enum gw_sock_rdma */
    uint32_t gpu;
    uint32_t lanes;     /* CPU: threads of a block (1) */
    uint32_t blocks;    /* (GPU: as many as run at a time, less a few for others; CPU: one per processor, 2 at
                           * least, and for the daemon 4) */
    uint32_t io_blocks; /* daemon: of those, how many serve (a quarter) */
    uint32_t connections; /* at a time (1024) */
    uint32_t largest;     /* n (4096) */
    uint32_t proxies;   /* sets of sockets, each with a proxy thread (GPU over TCP: a processor in four, 8 at
                           * most; else 1) */
    uint32_t memory_mb; /* for matrices (GPU: 4096, CPU: 256) */
    uint32_t buffer_kb; /* a socket's ring, in each direction (up to 64 connections 1024; else GPU: 256, CPU:
                         * 64) */
    uint32_t body_s; /* how long A and B may take to come, and an answer to go, besides 0.1 µs a byte (10) */
    uint32_t idle_s; /* how long a client may be silent between requests (300) */
    uint32_t room_s; /* how long a request waits for a buffer before it is answered with MM_BUSY (2) */
};

struct mm_server;

/* Starts it. 0, or a negative errno with the reason in gw_last_error(). */
int mm_server_open(const struct mm_server_opts *opts, struct mm_server **out);

/* Where it listens. */
uint16_t mm_server_port(const struct mm_server *s);

/* For people: "independent, 16 blocks on cpu, 4 lanes". */
const char *mm_server_name(const struct mm_server *s);

/* Does it still run? -EIO: its kernel has failed. */
int mm_server_check(struct mm_server *s);

/* What it has done. It may be called while it runs. */
int mm_server_query(struct mm_server *s, struct mm_counts *counts);

/* Ends its kernel: connections are closed. What it has done can still be asked for. */
int mm_server_stop(struct mm_server *s);

/* The same, and frees it. NULL is allowed. */
int mm_server_close(struct mm_server *s);

#endif
