/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_setup_impl.h: how sockets are opened, connected and closed. Included by socket.h; names that end in _
 * are private.
 *
 * Three places. struct gw_sock_ and what belongs to its kind are the kernels' own. struct gw_sock_info_ is what
 * the helper says of a socket, in host memory: it writes, kernels read. struct gw_sock_ask_ is a slot through
 * which a kernel asks the helper: who takes it (a word of the kernels' own) writes the question and then its
 * state, the helper the answer and then its state.
 */
#ifndef GPUWIRE_SOCKET_SETUP_IMPL_H
#define GPUWIRE_SOCKET_SETUP_IMPL_H

enum { GW_SOCK_ASKS_ = 64, GW_SOCK_SECOND_ = 1000000000, GW_SOCK_BUFFER_MIN_ = 4096 };

enum gw_sock_op_ {
    GW_SOCK_OPEN_ = 1,
    GW_SOCK_BIND_,
    GW_SOCK_LISTEN_,
    GW_SOCK_ACCEPT_,
    GW_SOCK_CONNECT_,
    GW_SOCK_CLOSE_,
    GW_SOCK_OPTION_, /* number: which; the value in addr */
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

/* What options say of a socket: kernels read, the helper writes. Accepted sockets have their listener's. */
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
    GW_SOCK_OPTS_
};

struct gw_sock_info_ {
    uint32_t state;
    int32_t error;
    uint32_t ready; /* LISTENING: connections to accept */
    uint32_t kind;  /* CONNECTED: enum gw_sock_kind_ */
    uint32_t opt[GW_SOCK_OPTS_];
    struct gw_rs_conn peer;
    struct gw_sock_addr_ local, remote;
} __attribute__((aligned(128)));

enum { GW_SOCK_IDLE_ = 0, GW_SOCK_ASKED_ = 1, GW_SOCK_ANSWERED_ = 2, GW_SOCK_LATER_ = 3 /* to be answered */ };

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
    struct gw_stream_ *stream; /* NULL: the set has no device */
    struct gw_pipe_ *pipe;     /* NULL: it has no proxy */
    struct gw_sock_info_ *info;
    struct gw_sock_ask_ *ask;
    uint32_t *asking; /* [GW_SOCK_ASKS_]: slots that are taken */
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
#else
#ifdef __cplusplus
extern "C" {
#endif
/* What the helper has changed so far, as a count; and sleeping until there is more, or the deadline. */
GW_API uint32_t gw_cpu_sock_news_(struct gw_sockets *set);
GW_API void gw_cpu_sock_sleep_(struct gw_sockets *set, uint32_t news, uint64_t deadline_ns);
#ifdef __cplusplus
}
#endif
#endif

/* Between two looks at what the helper writes; news: from before the look. 0, or the deadline has passed. */
GW_FN int gw_sock_pause_(const struct gw_net *net, uint32_t news, uint32_t *round, uint64_t deadline_ns)
{
    if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
    if (!net->host || *round < 64)
        gw_pause((*round)++);
    else
        gw_cpu_sock_sleep_(net->host, news, deadline_ns);
    return 0;
}

GW_FN uint32_t gw_sock_news_(const struct gw_net *net)
{
    return net->host ? gw_cpu_sock_news_(net->host) : 0;
}

/* Asks and waits for the answer; addr may be NULL, and is then where nothing is written either. */
GW_SLOW_FN int gw_sock_ask_(struct gw_net *net, enum gw_sock_op_ op, int s, int number,
                            struct gw_sock_addr_ *addr, uint64_t until_ns)
{
    uint64_t deadline = gw_clock_ns() + GW_SOCK_HELPER_NS;
    struct gw_sock_ask_ *ask;
    uint32_t i, round = 0, news;
    int err = 0;

    if (until_ns > deadline) deadline = until_ns;
    for (i = 0; !gw_turn_try_(&net->asking[i]); i = (i + 1) % GW_SOCK_ASKS_)
        if (i == GW_SOCK_ASKS_ - 1) {
            if (gw_clock_ns() >= deadline) return -ETIMEDOUT;
            gw_pause(round++);
        }
    ask = &net->ask[i];
    ask->op = op;
    ask->sock = s;
    ask->number = number;
    if (addr) ask->addr = *addr;
    gw_st_release_u32(&ask->state, GW_SOCK_ASKED_); /* release: the question first */
    gw_st_release_u32(net->asked, 1);               /* release: the slot first */
    if (net->host) gw_cpu_sock_wake_(net->host);
    for (round = 0;;) {
        news = gw_sock_news_(net);
        if (gw_ld_acquire_u32(&ask->state) == GW_SOCK_ANSWERED_) break; /* acquire: the answer behind it */
        err = gw_sock_pause_(net, news, &round, deadline);
        if (err) return err; /* the slot stays taken: the helper may still write to it */
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

#include <gpuwire/socket_kind_impl.h>

/* ---- numbers and states ------------------------------------------------------------------------------- */

GW_FN int gw_sock_usable_(const struct gw_net *net)
{
    return net->size == sizeof(*net) && net->version == GW_SOCK_VERSION ? 0 : -EINVAL;
}

GW_FN int gw_sock_find_(const struct gw_net *net, int s)
{
    if (gw_sock_usable_(net)) return -EINVAL;
    if (s < 0 || (uint32_t)s >= net->count) return -EBADF;
    return gw_ld_relaxed_u32_gpu(&net->sock[s].closing) ? -EBADF : 0;
}

/* A socket that the helper has just given out. Its last user left `closing` set, and sealed it. */
GW_FN void gw_sock_new_(struct gw_net *net, int s, uint32_t told, uint32_t dgram)
{
    gw_st_relaxed_u32_gpu(&net->sock[s].told, told);
    gw_st_relaxed_u32_gpu(&net->sock[s].said, 0);
    gw_st_relaxed_u32_gpu(&net->sock[s].begun, 0);
    gw_sock_unseal_(net, s);
    if (dgram) {
        net->sock[s].kind = GW_SOCK_DGRAM_;
        gw_sock_begin_(net, s);
        gw_st_relaxed_u32_gpu(&net->sock[s].begun, 1);
    }
    gw_st_release_u32_gpu(&net->sock[s].closing, 0); /* release: last */
}

GW_FN uint32_t gw_sock_state_(const struct gw_net *net, int s)
{
    return gw_ld_acquire_u32(&net->info[s].state); /* acquire: what the helper wrote before */
}

/* Is it a datagram socket? */
GW_FN int gw_sock_is_dgram_(const struct gw_net *net, int s)
{
    return gw_sock_opt_(net, s, GW_SOCK_OPT_TYPE_) == SOCK_DGRAM;
}

/* Is it connected, and ready for data? 0; -EAGAIN: it is being connected; or an error. */
GW_FN int gw_sock_joined_(struct gw_net *net, int s)
{
    int err = gw_sock_find_(net, s);

    if (err) return err;
    if (gw_ld_acquire_u32_gpu(&net->sock[s].begun)) return 0;
    switch (gw_sock_state_(net, s)) {
    case GW_SOCK_FREE_: return -EBADF;
    case GW_SOCK_CONNECTING_: return -EAGAIN;
    case GW_SOCK_CONNECTED_: break;
    default: return -ENOTCONN;
    }
    (void)gw_turn_take_(&net->sock[s].lock, UINT64_MAX); /* held for a moment */
    if (!net->sock[s].begun) {
        net->sock[s].kind = gw_ld_relaxed_u32(&net->info[s].kind);
        gw_sock_begin_(net, s);
        gw_st_release_u32_gpu(&net->sock[s].begun, 1); /* release: it is ready */
    }
    gw_turn_leave_(&net->sock[s].lock);
    return 0;
}

/* As above, but waits until it is connected. */
GW_FN int gw_sock_connected_(struct gw_net *net, int s, uint64_t deadline_ns)
{
    uint32_t round = 0, news;
    int err, late;

    for (;;) {
        news = gw_sock_news_(net);
        err = gw_sock_joined_(net, s);
        if (err != -EAGAIN) return err;
        late = gw_sock_pause_(net, news, &round, deadline_ns);
        if (late) return late;
    }
}

/* ---- opening ------------------------------------------------------------------------------------------ */

GW_SLOW_FN int gw_sock_open_thread(struct gw_net *net, int domain, int type, int protocol,
                                   uint64_t deadline_ns)
{
    int err = gw_sock_usable_(net);

    if (err) return err;
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) return -EAFNOSUPPORT;
    if (type != SOCK_STREAM && type != SOCK_DGRAM) return -EINVAL;
    if (protocol && (domain == AF_UNIX || protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)))
        return -EPROTONOSUPPORT;
    err = gw_sock_ask_(net, GW_SOCK_OPEN_, 0, type << 8 | domain, NULL, deadline_ns);
    if (err >= 0) gw_sock_new_(net, err, 0, type == SOCK_DGRAM);
    return err;
}

/* Takes an address over. */
GW_FN int gw_sock_addr_(struct gw_sock_addr_ *to, const struct sockaddr *addr, socklen_t len)
{
    uint32_t want = (uint32_t)len;

    if (!addr || len < sizeof(addr->sa_family)) return -EINVAL;
    switch (addr->sa_family) {
    case AF_INET: want = (uint32_t)sizeof(struct sockaddr_in); break;
    case AF_INET6: want = (uint32_t)sizeof(struct sockaddr_in6); break;
    case AF_UNIX: break;
    default: return -EAFNOSUPPORT;
    }
    if (len < want || want > sizeof(to->bytes)) return -EINVAL;
    to->len = want;
    memcpy(to->bytes, addr, want);
    return 0;
}

GW_FN int gw_sock_tell_addr_(const struct gw_sock_addr_ *from, struct sockaddr *addr, socklen_t *len)
{
    if (!addr) return 0;
    if (!len) return -EINVAL;
    memcpy(addr, from->bytes, *len < from->len ? *len : from->len);
    *len = from->len;
    return 0;
}

GW_SLOW_FN int gw_sock_bind_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                   uint64_t deadline_ns)
{
    struct gw_sock_addr_ a;
    int err = gw_sock_find_(net, s);

    if (!err) err = gw_sock_addr_(&a, addr, len);
    return err ? err : gw_sock_ask_(net, GW_SOCK_BIND_, s, 0, &a, deadline_ns);
}

GW_SLOW_FN int gw_sock_listen_thread(struct gw_net *net, int s, int backlog, uint64_t deadline_ns)
{
    int err = gw_sock_find_(net, s);

    return err ? err : gw_sock_ask_(net, GW_SOCK_LISTEN_, s, backlog < 1 ? 1 : backlog, NULL, deadline_ns);
}

GW_SLOW_FN int gw_sock_accept_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len,
                                     uint64_t deadline_ns)
{
    uint32_t round = 0, news, state;
    int err = gw_sock_find_(net, s), late;
    struct gw_sock_addr_ a;

    if (err) return err;
    if (gw_sock_is_dgram_(net, s)) return -EOPNOTSUPP;
    for (;;) {
        news = gw_sock_news_(net);
        state = gw_sock_state_(net, s);
        if (state == GW_SOCK_FREE_) return -EBADF;
        if (state == GW_SOCK_DOWN_) return -ENETDOWN;
        if (state != GW_SOCK_LISTENING_) return -EINVAL;
        err = -EAGAIN;
        if (gw_ld_relaxed_u32(&net->info[s].ready))
            err = gw_sock_ask_(net, GW_SOCK_ACCEPT_, s, 0, &a, deadline_ns);
        if (err >= 0) break;
        if (err != -EAGAIN) return err;
        late = gw_sock_pause_(net, news, &round, deadline_ns);
        if (late) return late;
    }
    gw_sock_new_(net, err, 1, 0);
    late = gw_sock_tell_addr_(&a, addr, len);
    return late ? late : err;
}

GW_SLOW_FN int gw_sock_connect_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                      uint64_t deadline_ns)
{
    uint32_t round = 0, news, state;
    struct gw_sock_addr_ a;
    int err = gw_sock_find_(net, s), begun = 0;

    if (!err && gw_sock_is_dgram_(net, s)) {
        err = gw_sock_addr_(&a, addr, len);
        return err ? err : gw_sock_ask_(net, GW_SOCK_CONNECT_, s, 0, &a, deadline_ns);
    }
    for (; !err; err = gw_sock_pause_(net, news, &round, deadline_ns)) {
        news = gw_sock_news_(net);
        state = gw_sock_state_(net, s);
        if (state == GW_SOCK_FREE_) return -EBADF;
        if (state == GW_SOCK_LISTENING_) return -EOPNOTSUPP;
        if (state == GW_SOCK_DOWN_) return -ENETDOWN;
        if (state == GW_SOCK_CONNECTED_ || state == GW_SOCK_FAILED_) {
            if (gw_exch_relaxed_u32_gpu(&net->sock[s].told, 1)) /* the result has been told before */
                return state == GW_SOCK_CONNECTED_ ? -EISCONN : -ECONNABORTED;
            return state == GW_SOCK_CONNECTED_ ? 0 : net->info[s].error;
        }
        if (state == GW_SOCK_CONNECTING_) {
            if (!begun && !deadline_ns) return -EALREADY;
            continue;
        }
        err = gw_sock_addr_(&a, addr, len);
        if (!err) err = gw_sock_ask_(net, GW_SOCK_CONNECT_, s, 0, &a, deadline_ns);
        if (err) return err;
        begun = 1;
    }
    return begun && err == -EAGAIN ? -EINPROGRESS : err;
}

GW_SLOW_FN int gw_sock_name_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len)
{
    int err = gw_sock_find_(net, s);

    if (err) return err;
    if (gw_sock_state_(net, s) == GW_SOCK_FREE_) return -EBADF;
    return addr ? gw_sock_tell_addr_(&net->info[s].local, addr, len) : -EINVAL;
}

GW_SLOW_FN int gw_sock_peer_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len)
{
    int err = gw_sock_find_(net, s);
    uint32_t state;

    if (err) return err;
    state = gw_sock_state_(net, s);
    if (state != GW_SOCK_CONNECTED_) return state == GW_SOCK_FREE_ ? -EBADF : -ENOTCONN;
    return addr ? gw_sock_tell_addr_(&net->info[s].remote, addr, len) : -EINVAL;
}

/* ---- closing ------------------------------------------------------------------------------------------ */

GW_SLOW_FN int gw_sock_shutdown_thread(struct gw_net *net, int s, int how, uint64_t deadline_ns)
{
    int err = gw_sock_joined_(net, s);

    if (err) return err == -EAGAIN ? -ENOTCONN : err;
    if (gw_sock_is_dgram_(net, s) && gw_sock_state_(net, s) != GW_SOCK_CONNECTED_) return -ENOTCONN;
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
    err = gw_turn_take_(&net->sock[s].send_lock, deadline_ns);
    if (err) return err;
    err = gw_sock_shut_(net, s, how, deadline_ns);
    gw_turn_leave_(&net->sock[s].send_lock);
    return err;
}

/* Both turns, from those who see `closing` at their next look and leave; who has borrowed bytes does not look. */
GW_FN int gw_sock_turns_(struct gw_sock_ *k, uint64_t deadline_ns)
{
    uint64_t until = gw_clock_ns() + GW_SOCK_HELPER_NS;

    if (deadline_ns > until) until = deadline_ns;
    if (gw_turn_take_(&k->send_lock, until) == 0) {
        if (gw_turn_take_(&k->recv_lock, until) == 0) return 0;
        gw_turn_leave_(&k->send_lock);
    }
    gw_st_relaxed_u32_gpu(&k->closing, 0);
    return -EBUSY;
}

GW_SLOW_FN int gw_sock_close_thread(struct gw_net *net, int s, uint64_t deadline_ns)
{
    int err = gw_sock_find_(net, s), lost = 0;
    uint32_t begun, linger;
    struct gw_sock_ *k;

    if (err) return err;
    if (gw_sock_state_(net, s) == GW_SOCK_FREE_) return -EBADF;
    (void)gw_sock_joined_(net, s); /* begins what is connected and was never used, to say goodbye */
    k = &net->sock[s];
    if (gw_cas_acq_rel_u32_gpu(&k->closing, 0, 1)) return -EBADF; /* another thread closes it */
    begun = gw_ld_acquire_u32_gpu(&k->begun);
    if (begun) {
        gw_sock_startle_(net, s);
        if (gw_sock_turns_(k, deadline_ns)) return -EBUSY;
        linger = gw_sock_opt_(net, s, GW_SOCK_OPT_LINGER_);
        if (linger && deadline_ns > gw_clock_ns() + (linger - 1) * (uint64_t)GW_SOCK_SECOND_)
            deadline_ns = gw_clock_ns() + (linger - 1) * (uint64_t)GW_SOCK_SECOND_;
        if (linger != 1) lost = gw_sock_goodbye_(net, s, deadline_ns); /* 1: not a word, as TCP's reset */
        gw_sock_seal_(net, s);
        gw_st_relaxed_u32_gpu(&k->begun, 0);
        gw_turn_leave_(&k->recv_lock);
        gw_turn_leave_(&k->send_lock);
    }
    err = gw_sock_ask_(net, GW_SOCK_CLOSE_, s, 0, NULL, deadline_ns);
    return err ? err : lost;
}

#endif
