/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: what kernels and the helper tell each other of sockets, and how a kernel asks. Included by
 * socket.h; names that end in _ are private.
 *
 * There are three places. The struct gw_sock_ and the state of its kind are the kernels' own. The helper
 * describes a socket in struct gw_sock_info_, in host memory: it writes, kernels read. A kernel asks the
 * helper through a slot, struct gw_sock_ask_. It takes the slot (a word of the kernels' own), and writes the
 * question and then its state. The helper writes the answer and then its state.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_REQUEST_H
#define GPUWIRE_DETAIL_SOCKET_REQUEST_H

/* LOOKS: a CPU thread that waits for the helper looks so often, which takes some 15 us, before it sleeps. */
enum { GW_SOCK_ASKS_ = 64, GW_SOCK_LOOKS_ = 96, GW_SOCK_SECOND_ = 1000000000, GW_SOCK_BUFFER_MIN_ = 4096 };

enum gw_sock_op_ {
    GW_SOCK_OPEN_ = 1,
    GW_SOCK_BIND_,
    GW_SOCK_LISTEN_,
    GW_SOCK_ACCEPT_,
    GW_SOCK_CONNECT_,
    GW_SOCK_CLOSE_,
    GW_SOCK_OPTION_,        /* number: which; the value in addr */
    GW_SOCK_SEND_DATAGRAM_, /* number: bytes; they lie in the end's `out` (datagram.h) */
};

enum gw_sock_state_ {
    GW_SOCK_FREE_ = 0,
    GW_SOCK_OPENED_,
    GW_SOCK_LISTENING_,
    GW_SOCK_CONNECTING_,
    GW_SOCK_CONNECTED_,
    GW_SOCK_FAILED_, /* to connect: error says why */
    GW_SOCK_DOWN_,   /* it listened, until the proxy failed */
};

struct gw_sock_addr_ {
    uint32_t len;
    uint8_t bytes[112]; /* a struct sockaddr_in, sockaddr_in6 or sockaddr_un */
};

/* The options of a socket: kernels read them, the helper writes them. Accepted sockets have their
 * listener's. */
enum gw_sock_opt_ {
    GW_SOCK_OPT_DOMAIN_,
    GW_SOCK_OPT_TYPE_,
    GW_SOCK_OPT_RDMA_, /* enum gw_sock_rdma */
    GW_SOCK_OPT_RBUF_, /* bytes of the buffers that it uses */
    GW_SOCK_OPT_WBUF_,
    GW_SOCK_OPT_REUSE_,
    GW_SOCK_OPT_KEEPALIVE_,
    GW_SOCK_OPT_IDLE_, /* seconds; 0: the set's keepalive_ns */
    GW_SOCK_OPT_INTERVAL_,
    GW_SOCK_OPT_COUNT_,
    GW_SOCK_OPT_NODELAY_,
    GW_SOCK_OPT_LINGER_, /* 1 + seconds; 0: off */
    GW_SOCK_OPT_NONBLOCK_,
    GW_SOCK_OPT_RCVTIMEO_, /* milliseconds; 0: none */
    GW_SOCK_OPT_SNDTIMEO_,
    GW_SOCK_OPT_REUSEPORT_,
    GW_SOCK_OPTS_
};

struct gw_sock_info_ {
    uint32_t state;
    int32_t error;
    uint32_t ready;    /* LISTENING: connections to accept */
    uint32_t kind;     /* CONNECTED: enum gw_sock_kind_ */
    uint32_t datagram; /* of datagrams over RDMA: which end */
    uint32_t opt[GW_SOCK_OPTS_];
    struct gw_rs_conn peer;
    struct gw_sock_addr_ local, remote;
} __attribute__((aligned(128)));

enum {
    GW_SOCK_IDLE_ = 0,
    GW_SOCK_ASKED_ = 1,
    GW_SOCK_ANSWERED_ = 2,
    GW_SOCK_LATER_ = 3 /* to be answered */
};

/* The owner of a slot. */
enum gw_sock_asking_ {
    GW_SOCK_NOBODY_ = 0,
    GW_SOCK_SOMEBODY_ = 1,
    GW_SOCK_LEFT_ = 2 /* who asked has given up waiting: the helper has it until it has answered */
};

struct gw_sock_ask_ {
    uint32_t state, op;
    int32_t sock, number, result;
    struct gw_sock_addr_ addr;
} __attribute__((aligned(128)));

struct gw_net {
    uint32_t size, version;
    uint32_t count, pad;
    uint64_t keepalive_ns;
    struct gw_sockets *host; /* on CPU threads: for waking and sleeping; else NULL */
    struct gw_sock_ *sock;
    struct gw_stream_ *stream;           /* NULL: the set has no device */
    struct gw_host_stream_ *host_stream; /* NULL: it has no proxy */
    struct gw_datagram_end_ *datagrams;  /* NULL: it has no datagrams over RDMA */
    struct gw_sock_info_ *info;
    struct gw_sock_ask_ *ask;
    uint32_t *asking; /* [GW_SOCK_ASKS_]: enum gw_sock_asking_ */
    uint32_t *asked;  /* tells the helper to look at them: only it clears it */
};

/* ---- the helper --------------------------------------------------------------------------------------- */

#ifdef __CUDACC__
GW_FN uint32_t gw_cpu_sock_news_(struct gw_sockets *set)
{
    (void)set;
    return 0;
}
GW_FN void gw_cpu_sock_sleep_(struct gw_sockets *set, uint32_t news, uint64_t deadline_ns)
{
    (void)set, (void)news, (void)deadline_ns;
}
GW_FN void gw_cpu_sock_arm_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n)
{
    (void)set, (void)fds, (void)n;
}
GW_FN void gw_cpu_sock_nap_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n, uint32_t news,
                            uint64_t deadline_ns)
{
    (void)set, (void)fds, (void)n, (void)news, (void)deadline_ns;
}
#else
#ifdef __cplusplus
extern "C" {
#endif
/* How many changes the helper has made so far; and sleeping until there are more, or the deadline. */
GW_API uint32_t gw_cpu_sock_news_(struct gw_sockets *set);
GW_API void gw_cpu_sock_sleep_(struct gw_sockets *set, uint32_t news, uint64_t deadline_ns);
/* Polling: asks for events of these sockets; and sleeps until one comes, or there is more, or the deadline.
 */
GW_API void gw_cpu_sock_arm_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n);
GW_API void gw_cpu_sock_nap_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n, uint32_t news,
                             uint64_t deadline_ns);
#ifdef __cplusplus
}
#endif
#endif

/* Between two looks at what the helper writes; news: from before the look. 0, or the deadline has passed. */
GW_FN int gw_sock_pause_(const struct gw_net *net, uint32_t news, uint32_t *round, uint64_t deadline_ns)
{
    if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
    if (!net->host || *round < GW_SOCK_LOOKS_)
        gw_pause((*round)++);
    else
        gw_cpu_sock_sleep_(net->host, news, deadline_ns);
    return 0;
}

GW_FN uint32_t gw_sock_news_(const struct gw_net *net)
{
    return net->host ? gw_cpu_sock_news_(net->host) : 0;
}

/* The question is in the slot: the helper is to see it. */
GW_FN void gw_sock_asked_(struct gw_net *net, struct gw_sock_ask_ *ask)
{
    gw_st_release_u32(&ask->state, GW_SOCK_ASKED_); /* release: the question first */
    gw_st_release_u32(net->asked, 1);               /* release: the slot first */
    if (net->host) gw_cpu_sock_wake_(net->host);
}

/* A slot that was left, and was answered since: takes it. If it was opened or accepted and the caller has
 * gone, the socket is closed first. Then the slot is left once more, and the result is 0. */
GW_FN int gw_sock_take_left_(struct gw_net *net, uint32_t i)
{
    struct gw_sock_ask_ *ask = &net->ask[i];

    if (gw_ld_relaxed_u32_gpu(&net->asking[i]) != GW_SOCK_LEFT_) return 0;
    if (gw_ld_relaxed_u32(&ask->state) != GW_SOCK_ANSWERED_) return 0;
    if (gw_cas_acq_rel_u32_gpu(&net->asking[i], GW_SOCK_LEFT_, GW_SOCK_SOMEBODY_) != GW_SOCK_LEFT_) return 0;
    /* Acquire, and once more: another thread may have taken it since, asked, and left it. */
    if (gw_ld_acquire_u32(&ask->state) == GW_SOCK_ANSWERED_) {
        if ((ask->op != GW_SOCK_OPEN_ && ask->op != GW_SOCK_ACCEPT_) || ask->result < 0) return 1;
        ask->op = GW_SOCK_CLOSE_;
        ask->sock = ask->result;
        gw_sock_asked_(net, ask);
    }
    gw_st_release_u32_gpu(&net->asking[i], GW_SOCK_LEFT_); /* release: what we have asked first */
    return 0;
}

/* A slot for a question; or -ETIMEDOUT. */
GW_SLOW_FN int gw_sock_slot_(struct gw_net *net, uint64_t deadline_ns)
{
    uint32_t i = 0, round = 0;

    while (!gw_turn_try_(&net->asking[i]) && !gw_sock_take_left_(net, i)) {
        i = (i + 1) % GW_SOCK_ASKS_;
        if (i) continue;
        if (gw_clock_ns() >= deadline_ns) return -ETIMEDOUT;
        gw_pause(round++);
    }
    return (int)i;
}

/* Asks and waits for the answer; addr may be NULL, and is then where nothing is written either. */
GW_SLOW_FN int gw_sock_ask_(struct gw_net *net, enum gw_sock_op_ op, int s, int number,
                            struct gw_sock_addr_ *addr, uint64_t until_ns)
{
    uint64_t deadline = gw_clock_ns() + GW_SOCK_HELPER_NS;
    struct gw_sock_ask_ *ask;
    uint32_t round = 0, news;
    int err, i;

    if (until_ns > deadline) deadline = until_ns;
    i = gw_sock_slot_(net, deadline);
    if (i < 0) return i;
    ask = &net->ask[i];
    ask->op = op;
    ask->sock = s;
    ask->number = number;
    if (addr) ask->addr = *addr;
    gw_sock_asked_(net, ask);
    for (;;) {
        news = gw_sock_news_(net);
        if (gw_ld_acquire_u32(&ask->state) == GW_SOCK_ANSWERED_) break; /* acquire: the answer is next */
        err = gw_sock_pause_(net, news, &round, deadline);
        if (err) {                                                 /* the helper may still write to it */
            gw_st_release_u32_gpu(&net->asking[i], GW_SOCK_LEFT_); /* release: the question first */
            return err;
        }
    }
    err = ask->result;
    if (addr) *addr = ask->addr;
    gw_st_relaxed_u32(&ask->state, GW_SOCK_IDLE_);
    gw_turn_leave_(&net->asking[i]);
    return err;
}

GW_FN uint32_t gw_sock_opt_(const struct gw_net *net, int s, enum gw_sock_opt_ which)
{
    return gw_ld_relaxed_u32(&net->info[s].opt[which]);
}

#endif
