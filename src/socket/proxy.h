/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h: the proxy of a set of sockets, which gives kernels the sockets of the host. It is a part of the
 * helper's thread. All its requests go through one io_uring: bytes move from the rings that kernels see
 * straight into the sockets of the host, and back.
 *
 * A set has none when it was made for RDMA alone, or when the machine has no io_uring: set->proxy is NULL
 * then.
 */
#ifndef GW_SOCKET_PROXY_H
#define GW_SOCKET_PROXY_H

#include <liburing.h>
#include <stdbool.h>

#include "src/socket/net.h"

/* The kind of a request, in the low bits of its user_data; above them, which socket's. */
enum gw_socket_proxy_op {
    PROXY_WAKE,    /* the helper's eventfd */
    PROXY_CHANNEL, /* rdma_cm has news */
    PROXY_LISTEN,  /* a connection waits to be accepted */
    PROXY_CONNECT,
    PROXY_RECV,
    PROXY_SEND,
    PROXY_WATCH, /* for a reset, after the end of what comes in */
    PROXY_CANCEL,
    PROXY_RECVMSG,
    PROXY_SENDMSG,
    PROXY_TRY, /* RDMA has had its time; above the socket: which attempt */
};

struct gw_socket_proxy {
    struct io_uring ring;
    struct io_uring_sqe spare; /* stands for entries that cannot be had */
    int error;                 /* why the ring does not work any more; 0: it does */
    uint32_t looks;            /* since requests were submitted last */
    uint32_t idle;             /* looks for which the kernel was not called */
    uint64_t woken;            /* what is read from the eventfd */
};

/* proxy.c: the ring. -EOPNOTSUPP, with a reason in gw_last_error: there is no io_uring here. */
int gw_socket_proxy_create(struct gw_sockets *set);
void gw_socket_proxy_destroy(struct gw_sockets *set);
/* In the helper's thread, before it looks for the first time, and after the last: closes what is open. */
void gw_socket_proxy_enter(struct gw_sockets *set);
void gw_socket_proxy_leave(struct gw_sockets *set);
/* Does what there is to do; whether there was anything. */
bool gw_socket_proxy_look(struct gw_sockets *set);
/* Submits what is due and waits for what happens, for ns at most; 0: does not wait. */
void gw_socket_proxy_wait(struct gw_sockets *set, uint64_t ns);
/* An entry for a request of socket k (NULL: of the set). Never NULL. */
struct io_uring_sqe *gw_socket_proxy_sqe(struct gw_sockets *set, struct sock *k, enum gw_socket_proxy_op op);
/* Does the ring work? 0, or why not. */
int gw_socket_proxy_error(const struct gw_sockets *set);

/* proxy_sock.c: opening and closing. */
int gw_socket_proxy_open(struct gw_sockets *set, struct sock *k, int domain, int type);
void gw_socket_proxy_name(struct sock *k); /* publishes its own address */
int gw_socket_proxy_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
int gw_socket_proxy_listen(struct gw_sockets *set, struct sock *k, int backlog);
int gw_socket_proxy_accept(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer);
int gw_socket_proxy_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
/* False: it may be released; true: when its requests have ended. */
bool gw_socket_proxy_close(struct gw_sockets *set, struct sock *k);
void gw_socket_proxy_listening(struct gw_sockets *set, struct sock *l, int result);
void gw_socket_proxy_connected(struct gw_sockets *set, struct sock *k, int result);

/* try.c: sockets that use RDMA where both sides can, and the host's TCP else. */
int gw_try_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
int gw_try_listen(struct gw_sockets *set, struct sock *k, int backlog);
int gw_try_accept(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer);
int gw_try_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
/* RDMA has failed: goes on with TCP, if that is to be tried. */
bool gw_try_fall_back(struct gw_sockets *set, struct sock *k);
/* RDMA it is: the other way is given up. */
void gw_try_settle(struct sock *k);
void gw_try_late(struct gw_sockets *set, struct sock *k, uint32_t attempt);

/* proxy_stream.c: bytes. */
void gw_host_stream_reset(struct sock *k); /* both rings are empty */
void gw_host_stream_start(struct gw_sockets *set, struct sock *k);
/* Wakes the threads that wait: something of its ends has changed. */
void gw_host_stream_tell(struct gw_sockets *set, struct sock *k);
/* Looks at what the kernel has put and taken. */
void gw_host_stream_serve(struct gw_sockets *set, struct sock *k);
void gw_host_stream_received(struct gw_sockets *set, struct sock *k, int result, bool more);
void gw_host_stream_sent(struct gw_sockets *set, struct sock *k, int result);
void gw_host_stream_watched(struct gw_sockets *set, struct sock *k, int result);
/* No more bytes move: err says why. */
void gw_host_stream_fail(struct gw_sockets *set, struct sock *k, int err);

/* proxy_datagram.c: datagrams. */
void gw_host_datagram_start(struct gw_sockets *set, struct sock *k);
void gw_host_datagram_serve(struct gw_sockets *set, struct sock *k);
void gw_host_datagram_received(struct gw_sockets *set, struct sock *k, int result);
void gw_host_datagram_sent(struct gw_sockets *set, struct sock *k, int result);

#endif
