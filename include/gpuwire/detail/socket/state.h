/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h: what all kinds of sockets have in common, as kernels keep it. Included by socket.h; names
 * that end in _ are private.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_STATE_H
#define GPUWIRE_DETAIL_SOCKET_STATE_H

/* A socket's bytes take one of these ways. The calls on data choose by it, in kind.h alone. */
enum gw_sock_kind_ {
    GW_SOCK_STREAM_ = 1,    /* a stream over RDMA: stream.h */
    GW_SOCK_HOST_STREAM_,   /* a stream of the host's, TCP or UNIX, through the proxy: host_stream.h */
    GW_SOCK_HOST_DATAGRAM_, /* the host's, UDP or UNIX: host_datagram.h. It has begun once it is open. */
    GW_SOCK_DATAGRAM_,      /* datagrams over RDMA: datagram.h. It, too. */
};

/* LIMITED: a part of `begun`: most_ns says something. So a call in a hurry reads one word. AT_ONCE: of
 * most_ns: not at all. */
enum { GW_SOCK_LIMITED_ = 8, GW_SOCK_AT_ONCE_ = 1 };

/* The kernels' own state of a socket, whatever its kind. */
struct gw_sock_ {
    uint32_t lock; /* of the beginning */
    /* it is connected and its kind's parts are set up: its kind, and GW_SOCK_LIMITED_; or 0 */
    uint32_t begun;
    uint32_t kind;             /* which it has, or will have */
    uint32_t connect_reported; /* connect has returned its result */
    uint32_t closing;          /* no more calls, but the one that closes it */
    uint32_t send_lock;        /* whose turn it is to send, */
    uint32_t recv_lock;        /* and to receive */
    uint32_t error_reported;   /* SO_ERROR has returned the failure */
    uint64_t most_ns[2];       /* how long a call may wait to receive, and to send; 0: as its caller says */
} __attribute__((aligned(64)));

#endif
