/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup.h: how sockets are opened, connected and closed. Included by socket.h; names that end in _
 * are private.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_SETUP_H
#define GPUWIRE_DETAIL_SOCKET_SETUP_H

/* ---- numbers and states ------------------------------------------------------------------------------- */

GW_FN int gw_sock_usable_(const struct gw_net *net)
{
    uint32_t size = net->size, version = net->version; /* at a time */

    return size == sizeof(*net) && version == GW_SOCK_VERSION ? 0 : -EINVAL;
}

GW_FN int gw_sock_find_(const struct gw_net *net, int s)
{
    if (gw_sock_usable_(net)) return -EINVAL;
    if (s < 0 || (uint32_t)s >= net->count) return -EBADF;
    return gw_ld_relaxed_u32_gpu(&net->sock[s].closing) ? -EBADF : 0;
}

/* How long one of its calls may wait, as its options say: kept where kernels have it at hand. */
GW_FN void gw_sock_limits_(struct gw_net *net, int s)
{
    struct gw_sock_ *k = &net->sock[s];
    uint32_t at_once = gw_sock_opt_(net, s, GW_SOCK_OPT_NONBLOCK_), i, ms;

    for (i = 0; i < 2; i++) {
        ms = gw_sock_opt_(net, s, i ? GW_SOCK_OPT_SNDTIMEO_ : GW_SOCK_OPT_RCVTIMEO_);
        gw_st_relaxed_u64_gpu(&k->most_ns[i], at_once ? (uint64_t)GW_SOCK_AT_ONCE_ : ms * (uint64_t)1000000);
    }
}

/* The value of `begun` for a socket that has. */
GW_FN uint32_t gw_sock_begun_(const struct gw_sock_ *k)
{
    return gw_ld_relaxed_u64_gpu(&k->most_ns[0]) || gw_ld_relaxed_u64_gpu(&k->most_ns[1])
               ? k->kind | GW_SOCK_LIMITED_
               : k->kind;
}

/* Until when a call may wait that its caller lets wait until the deadline. Asked again, it says the same. */
GW_FN uint64_t gw_sock_until_(const struct gw_net *net, int s, int sending, uint64_t deadline_ns)
{
    uint64_t most = gw_ld_relaxed_u64_gpu(&net->sock[s].most_ns[sending]), now;

    if (!most || !deadline_ns) return deadline_ns;
    if (most == GW_SOCK_AT_ONCE_) return 0;
    now = gw_clock_ns();
    return deadline_ns > now && deadline_ns - now > most ? now + most : deadline_ns;
}

/* A socket that the helper has just given out. Its last user left `closing` set, and sealed it. */
GW_FN void gw_sock_new_(struct gw_net *net, int s, uint32_t reported, uint32_t datagram)
{
    gw_st_relaxed_u32_gpu(&net->sock[s].connect_reported, reported);
    gw_st_relaxed_u32_gpu(&net->sock[s].error_reported, 0);
    gw_st_relaxed_u32_gpu(&net->sock[s].begun, 0);
    gw_sock_limits_(net, s);
    gw_sock_unseal_(net, s);
    if (datagram) {
        net->sock[s].kind = gw_ld_relaxed_u32(&net->info[s].kind);
        gw_sock_begin_(net, s);
        gw_st_relaxed_u32_gpu(&net->sock[s].begun, gw_sock_begun_(&net->sock[s]));
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
        gw_st_release_u32_gpu(&net->sock[s].begun, gw_sock_begun_(&net->sock[s])); /* release: it is ready */
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
    if (addr && !len) return -EINVAL; /* before a connection is accepted whose number would be lost */
    if (gw_sock_is_dgram_(net, s)) return -EOPNOTSUPP;
    deadline_ns = gw_sock_until_(net, s, 0, deadline_ns);
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
    (void)gw_sock_tell_addr_(&a, addr, len);
    return err;
}

GW_SLOW_FN int gw_sock_connect_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                      uint64_t deadline_ns)
{
    uint32_t round = 0, news, state;
    struct gw_sock_addr_ a;
    int err = gw_sock_find_(net, s), begun = 0;

    if (!err && gw_sock_is_dgram_(net, s)) {
        err = gw_sock_addr_(&a, addr, len);
        if (!err) err = gw_sock_ask_(net, GW_SOCK_CONNECT_, s, 0, &a, deadline_ns);
        if (!err && gw_sock_datagram_(net, s)) gw_datagram_join_(gw_sock_datagram_(net, s), &a);
        return err;
    }
    if (!err) deadline_ns = gw_sock_until_(net, s, 1, deadline_ns);
    for (; !err; err = gw_sock_pause_(net, news, &round, deadline_ns)) {
        news = gw_sock_news_(net);
        state = gw_sock_state_(net, s);
        if (state == GW_SOCK_FREE_) return -EBADF;
        if (state == GW_SOCK_LISTENING_) return -EOPNOTSUPP;
        if (state == GW_SOCK_DOWN_) return -ENETDOWN;
        if (state == GW_SOCK_CONNECTED_ || state == GW_SOCK_FAILED_) {
            if (gw_exch_relaxed_u32_gpu(&net->sock[s].connect_reported,
                                        1)) /* the result has been told before */
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

/* Takes both turns. Their holders see `closing` at their next look, and leave. A group that has borrowed
 * bytes does not look. */
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
