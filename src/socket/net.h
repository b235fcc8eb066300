/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of a set of sockets. */
#ifndef GW_SOCKET_NET_H
#define GW_SOCKET_NET_H

#include <stdbool.h>

#include <rdma/rdma_cma.h>

#include <gpuwire/socket.h>

#include "src/exec/helper.h"

/* A socket as the helper sees it. Its state for kernels is in *info; what lies between those is `step`. */
enum sock_step {
    SOCK_FREE,
    SOCK_OPENED, /* its id may be bound */
    SOCK_LISTENING,
    SOCK_RESOLVING, /* connecting: on the way to a route */
    SOCK_ASKED,     /* … the peer has been asked */
    SOCK_ACCEPTING, /* the peer asked, and has been answered */
    SOCK_READY,     /* connected, and waits for accept */
    SOCK_CONNECTED,
    SOCK_FAILED,  /* to connect */
    SOCK_BROKEN,  /* its queue pair could not be made new */
    SOCK_CLOSING, /* the host's: until its requests have ended */
};

struct sock {
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_sock_info_ *info;
    struct rdma_cm_id *id;
    enum sock_step step;
    bool bound, used;          /* used: the queue pair needs a reset */
    uint32_t backlog, waiting; /* listening: connections being set up or to be accepted, at most and now */
    struct sock *listener;     /* ACCEPTING, READY: whose; NULL: it was closed */
    struct sock *next;         /* READY: in the listener's queue */
    struct sock *first, **last;

    /* The host's own socket (proxy.h); fd -1: none. */
    int fd;
    struct gw_host_stream_ends_ *ends;
    uint8_t *rbuf, *wbuf; /* as the CPU sees them */
    uint32_t rbuf_size, wbuf_size;
    uint64_t arrived, sent;          /* as in ends */
    uint32_t requests;               /* of the ring, under way */
    uint32_t shut;                   /* what the host's socket has been told, of enum gw_host_stream_shut_ */
    uint32_t ready_rdma, ready_host; /* listening: connections to accept; of the host's: is there any? */
    struct gw_sock_addr_ to;         /* the address to connect to, by whatever works */
    uint32_t attempt;                /* … which time */
    bool watched;                    /* … a request waits for the next one; not while some are there */
    bool receiving, sending;
    bool more;    /* the last receive left some */
    bool stopped; /* nothing more comes in */
    /* Datagrams: the requests under way, and the size in its ring of the one that leaves. And the bytes
     * skipped before the one that comes, and how many errors came in a row. */
    struct msghdr in, out;
    struct iovec in_iov, out_iov;
    uint32_t leaving, skip, stuck;
    struct gw_sock_ask_ *closer; /* CLOSING: who waits for it */

    struct datagram_end *datagram; /* datagrams over RDMA (datagram.h); else NULL */
};

struct gw_sockets {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_mr *mr;
    struct gw_sockets_attr attr;
    struct gw_mem bytes;   /* all sockets' buffers and tables: registered */
    struct gw_mem kernels; /* struct gw_net, and what kernels alone touch */
    struct gw_mem shared;  /* info and asks, and what kernels and the proxy tell each other: host memory */
    struct gw_mem rings;   /* the buffers of the host's sockets, when kernels' lie elsewhere: host memory */
    struct sock *sock;
    uint32_t open, hint; /* sockets in use; where to look for a free one */

    struct gw_exec *exec;
    struct rdma_event_channel *channel; /* NULL: the set has no device */
    struct gw_socket_proxy *proxy;      /* NULL: it has no sockets of the host's own */
    struct gw_datagrams *datagrams;     /* NULL: it has no datagrams over RDMA */
    uint8_t *groups, *bells;            /* of the proxy: see detail/socket/host_stream.h */
    uint32_t *asked;
    bool news_pending;       /* something was published since kernels were told last */
    struct gw_helper helper; /* its news: what kernels may wait for */
};

/* net.c: what the peer is told of a socket. */
void gw_sock_offer(const struct gw_sockets *set, const struct sock *k, struct gw_rs_conn *mine);
/* Makes a socket's queue pair as new, with its receives posted, if it has been connected. */
int gw_sock_renew(struct gw_sockets *set, struct sock *k);

/* helper.c */
int gw_sock_helper_start(struct gw_sockets *set);
void gw_sock_helper_stop(struct gw_sockets *set);
/* Publishes a state for kernels; those that sleep are woken at the end of the helper's look. */
void gw_sock_publish(struct gw_sockets *set, struct sock *k, uint32_t state);
struct sock *gw_sock_find_free(struct gw_sockets *set); /* NULL: none is */
struct sock *gw_sock_take_free(struct gw_sockets *set);
/* Tells kernels how many wait to be accepted. */
void gw_sock_say_ready(struct gw_sockets *set, struct sock *l);
/* Accepts one who came by RDMA. */
int gw_sock_take_ready(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer);
/* Closes connections to a listening socket that will not be accepted any more. */
void gw_sock_close_waiting(struct gw_sockets *set, struct sock *l);
/* Gives a socket back. */
void gw_sock_release(struct gw_sockets *set, struct sock *k);
/* A CLOSING socket's requests have ended. */
void gw_sock_closed(struct gw_sockets *set, struct sock *k);
/* A domain's address that is any, with any port; of UNIX sockets: none. */
struct gw_sock_addr_ gw_sock_any(uint32_t domain);
/* A socket that was accepted is as its listener. */
void gw_sock_inherit(struct sock *k, const struct sock *listener);

/* options.c: those of a new socket; sets one, by level << 16 | name. */
void gw_sock_options_begin(const struct gw_sockets *set, struct sock *k, int domain, int type);
int gw_sock_option(struct gw_sockets *set, struct sock *k, int which, const struct gw_sock_addr_ *value);

/* helper_cm.c: rdma_cm's side. Errors are negative errno values. */
int gw_sock_cm_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
int gw_sock_cm_listen(struct gw_sockets *set, struct sock *k, int backlog);
/* The same for a socket that listens already, by other means. */
int gw_sock_cm_listen_too(struct sock *k, int backlog);
/* A connection that is being set up has failed, or takes too long. */
void gw_sock_cm_fail(struct gw_sockets *set, struct sock *k, int err);
int gw_sock_cm_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
/* Everything that rdma_cm has to tell. */
void gw_sock_cm_events(struct gw_sockets *set);
void gw_sock_cm_close(struct sock *k);
/* SO_REUSEADDR, of a socket that may have no id yet. */
int gw_sock_cm_reuse(struct gw_sockets *set, struct sock *k, int on);

#endif
