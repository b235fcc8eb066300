/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that use sockets: one whose blocks each follow a script of calls, and one that speaks as rstream
 * does. */
#ifndef GW_TESTS_SOCKET_SOCKET_KERNELS_H
#define GW_TESTS_SOCKET_SOCKET_KERNELS_H

#include <gpuwire/socket.h>

enum socket_op {
    SK_OPEN,   /* s = a new socket; number: its domain, flags: its type */
    SK_BIND,   /* to addr */
    SK_LISTEN, /* backlog number */
    SK_ACCEPT, /* number = a socket from s */
    SK_CONNECT,
    SK_SEND, /* n bytes as seed and place give them, at most number at a time; the result is how many */
    SK_RECV, /* the same; stops at the end. SK_WRONG: they are not as they must be */
    SK_SEND_IN_PLACE, /* as SK_SEND and SK_RECV, without a copy */
    SK_RECV_IN_PLACE,
    SK_SEND_ONE, /* one call of n bytes, with flags */
    SK_RECV_ONE, /* one call of n bytes, with flags; the bytes are checked */
    SK_BORROW,   /* the next bytes, checked, of which n are given back; the result is how many there were */
    SK_SHUTDOWN, /* how: number */
    SK_CLOSE,
    SK_POLL,    /* for events number: what it told, -1 if it told nothing */
    SK_NAME,    /* the port; number 1: the peer's */
    SK_WRITEV,  /* one call of n bytes, in `number` stretches */
    SK_READV,   /* the same; the bytes are checked */
    SK_RESERVE, /* room, of which n bytes are filled and sent; the result: the room, or commit's error */
    SK_IOMAP, /* offers n bytes at address seed, with key flags, at offset `at`; SK_IOUNMAP takes them back */
    SK_IOUNMAP,
    SK_IOWRITE, /* n bytes at offset `at`, of the stream `seed` */
    SK_SETOPT,  /* option number, at level flags, to n; of SO_LINGER seconds, of times microseconds */
    SK_GETOPT,  /* its value */
};

#define SK_WRONG   (-1000)
#define SK_STEPS   16
#define SK_SOCKETS 64
#define SK_BUFFER  300032 /* bytes of each block */

struct socket_step {
    uint32_t op, form; /* enum socket_op, enum gw_group */
    uint32_t s;        /* which of the sockets; beyond them: that number itself, as an int */
    int32_t number, flags;
    uint64_t n, seed, at; /* at: where in the stream the first byte is */
    uint64_t limit_ns;    /* per call; 0: do not wait */
    struct sockaddr_in addr;
};

struct socket_script {
    struct socket_step step[SK_STEPS];
    uint32_t steps;
};

struct socket_args {
    struct gw_net *net;
    const struct socket_script *script; /* one per block */
    int64_t *result;                    /* SK_STEPS per block */
    int32_t *sock;                      /* SK_SOCKETS: open ones, by script */
    uint8_t *buffer;
};

/* rstream -T v does this with a connection: `count` blocks of `size` bytes in one direction, then back, and
 * again. */
struct rstream_args {
    struct gw_net *net;
    struct sockaddr_in addr; /* of the server */
    uint32_t server, size, iterations, count, form;
    uint64_t limit_ns;
    uint8_t *buffer; /* size bytes, 16 at least */
    int64_t *result; /* 0, or an error */
};

#endif
