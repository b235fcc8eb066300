/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel serves programs that none of us wrote: echo, HTTP, small parts of redis and of memcached. It is
 * also a client of memcached, of redis and of HTTP servers. One thread of each block works; each block polls
 * connections of its own.
 */
#ifndef GW_TESTS_SOCKET_SERVE_KERNELS_H
#define GW_TESTS_SOCKET_SERVE_KERNELS_H

#include <gpuwire/socket.h>

enum serve_what {
    SERVE_ECHO,
    SERVE_HTTP,
    SERVE_REDIS,
    SERVE_MEMCACHED,
    ASK_MEMCACHED,
    ASK_REDIS,
    ASK_HTTP,
    ASK_ECHO,
    SERVE_WHATS
};

#define SERVE_CONNS 64
#define SERVE_BYTES 8192
#define SERVE_KEYS  1024

struct serve_conn {
    int32_t s;
    uint32_t have; /* bytes of an unfinished request */
    char bytes[SERVE_BYTES];
};

struct serve_key {
    uint32_t key_len, value_len;
    char key[64], value[512];
};

struct serve_block {
    struct serve_conn conn[SERVE_CONNS];
    struct pollfd poll[SERVE_CONNS + 1];
    struct serve_key table[SERVE_KEYS];
    uint32_t keys;
};

struct serve_args {
    struct gw_net *net;
    uint32_t what, n; /* n: what a client asks, times */
    uint64_t limit_ns;
    uint32_t *stop;    /* host memory: the server is to end */
    int32_t *listener; /* -1; block 0 writes it */
    int64_t *result;   /* what went wrong first; or how many requests were answered */
    struct serve_block *block;
    struct sockaddr_storage addr;
    socklen_t len;
};

#endif
