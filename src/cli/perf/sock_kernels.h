/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gpuwire perf sock. Each block has one connection at a time. */
#ifndef GW_CLI_PERF_SOCK_KERNELS_H
#define GW_CLI_PERF_SOCK_KERNELS_H

#include <gpuwire/socket.h>

#define SOCK_MAGIC 0x67777073u
#define SOCK_SPAN  (1u << 20) /* bytes of a serving block; a ping-pong's largest message */

enum sock_mode {
    SOCK_LAT = 1, /* messages come back */
    SOCK_BW,      /* they are counted; at the end a struct sock_ack goes back */
    SOCK_CONNECT, /* there are none; the ack goes back at once */
    SOCK_BYE,     /* the same, and the server ends */
};

/* The beginning of a connection. Both sides are little-endian. */
struct sock_head {
    uint32_t magic, mode;
    uint64_t size, count;
    uint32_t verify, reserved;
};

struct sock_ack {
    uint64_t bytes, wrong;
};

struct sock_listen_args {
    struct gw_net *net;
    struct sockaddr_storage addr;
    socklen_t len;
    int32_t backlog;
    int64_t *result; /* the listening socket, or an error */
    struct sockaddr *name;
    socklen_t *name_len;
};

struct sock_serve_args {
    struct gw_net *net;
    int32_t listener;
    uint32_t *stop; /* host memory */
    uint8_t *bytes; /* SOCK_SPAN per block */
    uint64_t patience_ns;
};

struct sock_out {
    uint64_t start, stop, ops, checked, wrong;
    int64_t err;
};

struct sock_ask_args {
    struct gw_net *net;
    struct sockaddr_storage addr;
    socklen_t len;
    struct sock_head head;
    uint64_t times; /* connections of each block; CONNECT: many */
    uint64_t patience_ns;
    uint32_t *stop; /* host memory */
    uint8_t *bytes; /* head.size per block, in steps of `span` */
    uint64_t span;
    struct sock_out *out; /* one per block */
    uint32_t *ns;         /* LAT: of each of the last `samples` rounds */
    uint32_t samples;
};

#endif
