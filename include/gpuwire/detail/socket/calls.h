/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.h: how sockets are polled, send and receive. Included by socket.h; names that end in _ are private.
 *
 * More than six arguments: what a call has worked out travels as arguments, since a struct whose address is
 * passed would be forced into memory on a GPU. The functions of the other files of this folder do the same.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_CALLS_H
#define GPUWIRE_DETAIL_SOCKET_CALLS_H

/* ---- poll --------------------------------------------------------------------------------------------- */

GW_FN int gw_sock_ready_(struct gw_net *net, int s)
{
    if (gw_sock_find_(net, s)) return POLLNVAL;
    if (gw_sock_joined_(net, s) == 0) return gw_sock_events_(net, s);
    switch (gw_sock_state_(net, s)) {
    case GW_SOCK_FREE_: return POLLNVAL;
    case GW_SOCK_LISTENING_: return gw_ld_relaxed_u32(&net->info[s].ready) ? POLLIN : 0;
    case GW_SOCK_DOWN_:
    case GW_SOCK_FAILED_: return POLLIN | POLLOUT | POLLERR | POLLHUP;
    case GW_SOCK_OPENED_: return POLLOUT | POLLHUP; /* as a TCP socket that is not connected */
    default: return 0;
    }
}

/* Between two looks, before the second of which there were these news. A CPU thread soon sleeps. */
GW_FN void gw_sock_poll_pause_(struct gw_net *net, const struct pollfd *fds, uint32_t n, uint32_t news,
                               uint32_t *round, uint64_t deadline_ns)
{
    if (!net->host || *round < GW_SOCK_LOOKS_) {
        gw_pause((*round)++);
    } else if (*round == GW_SOCK_LOOKS_) {
        /* News from now on wakes it. The next look finds older news. */
        gw_cpu_sock_arm_(net->host, fds, n);
        *round += 1;
    } else {
        gw_cpu_sock_nap_(net->host, fds, n, news, deadline_ns);
        *round = GW_SOCK_LOOKS_;
    }
}

GW_SLOW_FN int gw_sock_poll_thread(struct gw_net *net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns)
{
    uint32_t i, round = 0, news;
    uint64_t now;
    int got;

    if (gw_sock_usable_(net)) return -EINVAL;
    for (;;) {
        news = gw_sock_news_(net);
        for (i = 0, got = 0; i < n; i++) {
            fds[i].revents = (short)(fds[i].fd < 0 ? 0
                                                   : gw_sock_ready_(net, fds[i].fd) &
                                                         (fds[i].events | POLLERR | POLLHUP | POLLNVAL));
            got += fds[i].revents != 0;
        }
        now = gw_clock_ns();
        for (i = 0; !got && i < n; i++) gw_sock_tend_(net, fds[i].fd, now);
        if (got || now >= deadline_ns) return got;
        gw_sock_poll_pause_(net, fds, n, news, &round, deadline_ns);
    }
}

/* ---- data --------------------------------------------------------------------------------------------- */

/* Takes the turn if it is free and the socket has begun, and returns its kind. Returns 0 if it is not so
 * plain. The turn was ours for a moment at most then. Looks one after the other take a GPU a quarter of a
 * microsecond each. */
GW_FN uint32_t gw_sock_turn_at_once_(struct gw_sock_ *k, int sending)
{
    uint32_t *turn = sending ? &k->send_lock : &k->recv_lock, begun, closing;

    /* Acquire: what the last owner did comes before what we do. */
    if (gw_cas_acquire_u32_gpu(turn, 0, 1)) return 0;
    closing = gw_ld_relaxed_u32_gpu(&k->closing);
    begun = gw_ld_acquire_u32_gpu(&k->begun); /* acquire: what the kind needs has been set up */
    if (begun && !closing) return begun;
    gw_turn_leave_(turn);
    return 0;
}

/* Waits for the turn, on a connected socket. */
GW_SLOW_FN int gw_sock_turn_(struct gw_net *net, int s, int sending, uint64_t deadline_ns)
{
    int err = gw_sock_connected_(net, s, deadline_ns);

    return err ? err
               : gw_turn_take_(sending ? &net->sock[s].send_lock : &net->sock[s].recv_lock, deadline_ns);
}

/* The first thread's preparation for moving data: the turn, on a connected socket. The kind that it is; or an
 * error. *until: when its caller lets it wait no longer; when the socket does not either, then. */
GW_SLOW_FN int gw_sock_enter_(struct gw_net *net, int s, int flags, int sending, uint64_t *until)
{
    int known = MSG_DONTWAIT | MSG_NOSIGNAL | (sending ? 0 : MSG_PEEK | MSG_WAITALL), err = 0;
    struct gw_sock_ *socks = net->sock; /* at a time */
    uint32_t *turn, begun, kind, count = net->count;

    if (flags & ~(known | (sending ? 0 : MSG_TRUNC))) return -EOPNOTSUPP;
    if (gw_sock_usable_(net)) return -EINVAL;
    if (s < 0 || (uint32_t)s >= count) return -EBADF;
    begun = gw_sock_turn_at_once_(&socks[s], sending);
    if (!begun) {
        *until = gw_sock_until_(net, s, sending, *until);
        err = gw_sock_turn_(net, s, sending, *until);
        if (err) return err;
        begun = gw_ld_acquire_u32_gpu(&socks[s].begun); /* as above; 0: closed while we waited for our turn */
    }
    turn = sending ? &socks[s].send_lock : &socks[s].recv_lock;
    kind = begun & ~(uint32_t)GW_SOCK_LIMITED_;
    if (begun & GW_SOCK_LIMITED_) *until = gw_sock_until_(net, s, sending, *until);
    if (!begun)
        err = -EBADF;
    else if (flags & MSG_TRUNC && kind != GW_SOCK_HOST_DATAGRAM_ && kind != GW_SOCK_DATAGRAM_)
        err = -EOPNOTSUPP;
    if (!err) return (int)kind;
    gw_turn_leave_(turn);
    return err;
}

/* The same for what only streams can do. */
GW_FN int gw_sock_enter_stream_(struct gw_net *net, int s, int sending, uint64_t *until)
{
    int kind = gw_sock_enter_(net, s, 0, sending, until);

    if (kind < 0) return kind;
    if (kind == GW_SOCK_STREAM_ || kind == GW_SOCK_HOST_STREAM_) return 0;
    gw_turn_leave_(sending ? &net->sock[s].send_lock : &net->sock[s].recv_lock);
    return -EOPNOTSUPP;
}

/* The first thread's first steps: say[0]: the kind, or an error; and of a stream how much there is room for,
 * and where. */
GW_DEV void gw_sock_begin_send_(enum gw_group g, struct gw_net *net, int s, int flags, uint64_t n,
                                uint64_t *until, struct gw_stream_out_ *o, uint64_t say[3])
{
    int kind = gw_sock_enter_(net, s, flags, 1, until);

    say[0] = (uint64_t)(int64_t)kind;
    if (kind == GW_SOCK_STREAM_)
        say[1] = (uint64_t)gw_stream_first_room_(net, s, o, n, gw_stream_spare_(g, n), *until, &say[2]);
    else if (kind == GW_SOCK_HOST_STREAM_)
        say[1] = (uint64_t)gw_host_stream_next_room_(&net->host_stream[s], n, *until, &say[2]);
}

GW_SLOW_DEV int64_t gw_sock_send_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                    int flags, const struct sockaddr *to, socklen_t len, uint64_t deadline_ns)
{
    uint64_t until = flags & MSG_DONTWAIT ? 0 : deadline_ns, say[3] = {0, 0, 0};
    struct gw_stream_out_ o;
    int64_t kind;

    if (gw_group_rank(g) == 0) gw_sock_begin_send_(g, net, s, flags, v.left, &until, &o, say);
    gw_group_first_three(g, say);
    kind = (int64_t)say[0];
    if (kind < 0) return kind;
    if (kind == GW_SOCK_STREAM_) return gw_stream_send_g_(g, net, s, v, &o, (int64_t)say[1], say[2], until);
    if (kind == GW_SOCK_HOST_DATAGRAM_) return gw_host_datagram_send_g_(g, net, s, v, to, len, until);
    if (kind == GW_SOCK_DATAGRAM_) return gw_datagram_send_g_(g, net, s, v, to, len, until);
    return gw_host_stream_send_g_(g, net, s, v, (int64_t)say[1], say[2], until);
}

/* As gw_sock_begin_send_: how much there is, and where. */
GW_DEV void gw_sock_begin_recv_(struct gw_net *net, int s, int flags, uint64_t n, uint64_t *until,
                                uint64_t say[3])
{
    int kind = gw_sock_enter_(net, s, flags, 0, until);

    say[0] = (uint64_t)(int64_t)kind;
    if (!n) return;
    if (kind == GW_SOCK_STREAM_)
        say[1] = (uint64_t)gw_stream_next_bytes_(&net->stream[s], &net->sock[s], 0, n, 1, *until, &say[2]);
    else if (kind == GW_SOCK_HOST_STREAM_)
        say[1] = (uint64_t)gw_host_stream_next_bytes_(&net->host_stream[s], 0, n, 1, *until, &say[2]);
}

GW_SLOW_DEV int64_t gw_sock_recv_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                    int flags, struct sockaddr *from, socklen_t *len, uint64_t deadline_ns)
{
    uint64_t until = flags & MSG_DONTWAIT ? 0 : deadline_ns, say[3] = {0, 0, 0};
    int64_t kind;

    if (gw_group_rank(g) == 0) gw_sock_begin_recv_(net, s, flags, v.left, &until, say);
    gw_group_first_three(g, say);
    kind = (int64_t)say[0];
    if (kind < 0) return kind;
    if (kind == GW_SOCK_HOST_DATAGRAM_)
        return gw_host_datagram_recv_g_(g, net, s, v, flags, from, len, until);
    if (kind == GW_SOCK_DATAGRAM_) return gw_datagram_recv_g_(g, net, s, v, flags, from, len, until);
    if (from && gw_group_rank(g) == 0) *len = 0; /* a stream tells no address */
    if (kind == GW_SOCK_STREAM_)
        return gw_stream_recv_g_(g, net, s, v, flags, (int64_t)say[1], say[2], until);
    return gw_host_stream_recv_g_(g, net, s, v, flags, (int64_t)say[1], say[2], until);
}

/* The calls that send and receive, by what they are given. Vectors of no bytes at all are no news to anybody.
 */
GW_DEV int64_t gw_sock_writev_g_(enum gw_group g, struct gw_net *net, int s, const struct iovec *iov, int n,
                                 uint64_t deadline_ns)
{
    struct gw_sock_vec_ v;
    int err = gw_sock_find_(net, s);

    if (!err) err = gw_sock_vec_(&v, iov, n);
    return err || !v.left ? err : gw_sock_send_g_(g, net, s, v, 0, NULL, 0, deadline_ns);
}

GW_DEV int64_t gw_sock_readv_g_(enum gw_group g, struct gw_net *net, int s, const struct iovec *iov, int n,
                                uint64_t deadline_ns)
{
    struct gw_sock_vec_ v;
    int err = gw_sock_find_(net, s);

    if (!err) err = gw_sock_vec_(&v, iov, n);
    return err || !v.left ? err : gw_sock_recv_g_(g, net, s, v, 0, NULL, NULL, deadline_ns);
}

/* May a stream be given an address to send to? As with Linux TCP does not look at it, and UNIX refuses it. */
GW_FN int gw_sock_named_(struct gw_net *net, int s)
{
    int err = gw_sock_find_(net, s);

    if (err || gw_sock_is_dgram_(net, s) || gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_) != AF_UNIX) return err;
    return gw_sock_state_(net, s) == GW_SOCK_CONNECTED_ ? -EISCONN : -EOPNOTSUPP;
}

GW_DEV int64_t gw_sock_sendto_g_(enum gw_group g, struct gw_net *net, int s, const void *bytes, uint64_t n,
                                 int flags, const struct sockaddr *to, socklen_t len, uint64_t deadline_ns)
{
    struct iovec iov;
    struct gw_sock_vec_ v;
    int err;

    iov.iov_base = (void *)(uintptr_t)bytes;
    iov.iov_len = n;
    err = to && len > sizeof(struct sockaddr_storage) ? -EINVAL : gw_sock_vec_(&v, &iov, 1);
    if (!err && to) err = (int)GW_SOCK_FIRST_(g, gw_sock_named_(net, s));
    return err ? err : gw_sock_send_g_(g, net, s, v, flags, to, len, deadline_ns);
}

GW_DEV int64_t gw_sock_recvfrom_g_(enum gw_group g, struct gw_net *net, int s, void *bytes, uint64_t n,
                                   int flags, struct sockaddr *from, socklen_t *len, uint64_t deadline_ns)
{
    struct iovec iov;
    struct gw_sock_vec_ v;
    int err;

    iov.iov_base = bytes;
    iov.iov_len = n;
    err = from && !len ? -EINVAL : gw_sock_vec_(&v, &iov, 1);
    return err ? err : gw_sock_recv_g_(g, net, s, v, flags, from, len, deadline_ns);
}

/* Where the next bytes lie, to whose turn it is: the first thread's part. */
GW_FN int64_t gw_sock_borrowed_(struct gw_net *net, int s, uint64_t *at, uint64_t deadline_ns)
{
    int64_t may = gw_sock_enter_stream_(net, s, 0, &deadline_ns);
    uint32_t row;

    if (may) return may;
    may = gw_sock_bytes_(net, s, 0, 1, deadline_ns);
    if (may <= 0 || may == GW_STREAM_END_) {
        gw_turn_leave_(&net->sock[s].recv_lock);
        return may == GW_STREAM_END_ ? 0 : may;
    }
    *at = (uintptr_t)gw_sock_bytes_at_(net, s, 0, (uint64_t)may, &row);
    return row;
}

GW_SLOW_DEV int64_t gw_sock_borrow_g_(enum gw_group g, struct gw_net *net, int s, const void **bytes,
                                      uint64_t deadline_ns)
{
    uint64_t at = 0;
    int64_t may = 0;

    if (gw_group_rank(g) == 0) may = gw_sock_borrowed_(net, s, &at, deadline_ns);
    may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
    *bytes = (const void *)(uintptr_t)at;
    return may;
}

/* The first thread's part. More than 0: the third one is to free them; 2: and to look for more, of which
 * there is little. */
GW_FN int gw_sock_given_back_(struct gw_net *net, int s, uint64_t n, uint32_t third)
{
    struct gw_stream_ *st;
    int err;

    if (s < 0 || (uint32_t)s >= net->count) return -EBADF;
    if (!third || gw_sock_host_stream_(net, s)) {
        err = gw_sock_take_(net, s, n);
    } else {
        st = &net->stream[s];
        err = gw_stream_take_(st, n);
        if (!err) {
            err = 1 + (gw_stream_may_recv_(st, &net->sock[s], 0) < (int64_t)n);
            gw_stream_deferred_(st);
        }
    }
    gw_turn_leave_(&net->sock[s].recv_lock);
    return err;
}

GW_DEV int gw_sock_give_back_g_(enum gw_group g, struct gw_net *net, int s, uint64_t n)
{
    uint32_t third = gw_stream_third_(g);
    int err;

    gw_group_sync(g); /* everybody has read before the room is given back */
    err = (int)GW_SOCK_FIRST_(g, gw_sock_given_back_(net, s, n, third));
    if (err > 0 && gw_group_rank(g) == third) gw_stream_free_deferred_(&net->stream[s], n, err > 1);
    return err < 0 ? err : 0;
}

/* Room for the next bytes, to whose turn it is: the first thread's part. */
GW_FN int64_t gw_sock_reserved_(struct gw_net *net, int s, uint64_t *at, uint64_t deadline_ns)
{
    int64_t may = gw_sock_enter_stream_(net, s, 1, &deadline_ns);

    if (may) return may;
    may = gw_sock_room_(net, s, deadline_ns);
    if (may > 0)
        *at = (uintptr_t)gw_sock_room_at_(net, s);
    else
        gw_turn_leave_(&net->sock[s].send_lock);
    return may;
}

GW_SLOW_DEV int64_t gw_sock_reserve_g_(enum gw_group g, struct gw_net *net, int s, void **bytes,
                                       uint64_t deadline_ns)
{
    uint64_t at = 0;
    int64_t may = 0;

    if (gw_group_rank(g) == 0) may = gw_sock_reserved_(net, s, &at, deadline_ns);
    may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
    *bytes = (void *)(uintptr_t)at;
    return may;
}

/* The first thread's part. As gw_stream_commit_, where there is a second one for the rest. */
GW_FN int64_t gw_sock_committed_(struct gw_net *net, int s, uint64_t n, uint32_t second, uint64_t deadline_ns,
                                 uint64_t *at)
{
    int64_t err = 0;

    if (s < 0 || (uint32_t)s >= net->count) return -EBADF;
    if (n)
        err = second && !gw_sock_host_stream_(net, s) ? gw_stream_commit_(net, s, n, deadline_ns, at)
                                                      : gw_sock_put_(net, s, n, deadline_ns);
    gw_turn_leave_(&net->sock[s].send_lock);
    return err;
}

GW_DEV int gw_sock_commit_g_(enum gw_group g, struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns)
{
    uint32_t second = gw_stream_second_(g);
    uint64_t at = 0;
    int64_t done = 0;

    gw_group_sync(g); /* everybody has written before the post that sends it */
    if (gw_group_rank(g) == 0) done = gw_sock_committed_(net, s, n, second, deadline_ns, &at);
    done = (int64_t)gw_group_first_two(g, (uint64_t)done, &at);
    if (done > 0 && gw_group_rank(g) == second) gw_stream_show_(&net->stream[s], at, (uint32_t)done);
    if (done > 0 && done & (GW_STREAM_LOOK_ | GW_STREAM_REAP_) && gw_group_rank(g) == gw_stream_third_(g))
        gw_stream_look_deferred_(&net->stream[s], (done & GW_STREAM_LOOK_) != 0,
                                 (done & GW_STREAM_REAP_) != 0);
    return done < 0 ? (int)done : 0;
}

#include <gpuwire/detail/socket/direct.h>

/* The three forms of what a group does together. */
#define GW_SOCK_GROUP_(type, name, params, ...)                                                              \
    GW_DEV type gw_sock_##name params                                                                        \
    {                                                                                                        \
        return gw_sock_##name##_g_(GW_BLOCK, __VA_ARGS__);                                                   \
    }                                                                                                        \
    GW_DEV type gw_sock_##name##_warp params                                                                 \
    {                                                                                                        \
        return gw_sock_##name##_g_(GW_WARP, __VA_ARGS__);                                                    \
    }                                                                                                        \
    GW_DEV type gw_sock_##name##_thread params                                                               \
    {                                                                                                        \
        return gw_sock_##name##_g_(GW_THREAD, __VA_ARGS__);                                                  \
    }

GW_SOCK_GROUP_(int64_t, sendto,
               (struct gw_net * net, int s, const void *bytes, uint64_t n, int flags,
                const struct sockaddr *to, socklen_t len, uint64_t deadline_ns),
               net, s, bytes, n, flags, to, len, deadline_ns)
GW_SOCK_GROUP_(int64_t, recvfrom,
               (struct gw_net * net, int s, void *bytes, uint64_t n, int flags, struct sockaddr *from,
                socklen_t *len, uint64_t deadline_ns),
               net, s, bytes, n, flags, from, len, deadline_ns)
GW_SOCK_GROUP_(int64_t, writev,
               (struct gw_net * net, int s, const struct iovec *iov, int n, uint64_t deadline_ns), net, s,
               iov, n, deadline_ns)
GW_SOCK_GROUP_(int64_t, readv,
               (struct gw_net * net, int s, const struct iovec *iov, int n, uint64_t deadline_ns), net, s,
               iov, n, deadline_ns)
GW_SOCK_GROUP_(int64_t, borrow, (struct gw_net * net, int s, const void **bytes, uint64_t deadline_ns), net,
               s, bytes, deadline_ns)
GW_SOCK_GROUP_(int64_t, reserve, (struct gw_net * net, int s, void **bytes, uint64_t deadline_ns), net, s,
               bytes, deadline_ns)
GW_SOCK_GROUP_(int, commit, (struct gw_net * net, int s, uint64_t n, uint64_t deadline_ns), net, s, n,
               deadline_ns)
GW_SOCK_GROUP_(int64_t, iowrite,
               (struct gw_net * net, int s, const void *bytes, uint64_t n, uint64_t offset, int flags,
                uint64_t deadline_ns),
               net, s, bytes, n, offset, flags, deadline_ns)
GW_SOCK_GROUP_(int, give_back, (struct gw_net * net, int s, uint64_t n), net, s, n)
#undef GW_SOCK_GROUP_

/* send and recv: sendto and recvfrom without an address. */
#define GW_SOCK_PLAIN_(form)                                                                                 \
    GW_DEV int64_t gw_sock_send##form(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,   \
                                      uint64_t deadline_ns)                                                  \
    {                                                                                                        \
        return gw_sock_sendto##form(net, s, bytes, n, flags, NULL, 0, deadline_ns);                          \
    }                                                                                                        \
    GW_DEV int64_t gw_sock_recv##form(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,         \
                                      uint64_t deadline_ns)                                                  \
    {                                                                                                        \
        return gw_sock_recvfrom##form(net, s, bytes, n, flags, NULL, NULL, deadline_ns);                     \
    }

GW_SOCK_PLAIN_()
GW_SOCK_PLAIN_(_warp)
GW_SOCK_PLAIN_(_thread)
#undef GW_SOCK_PLAIN_

/* ---- the other forms of what one thread does for its group -------------------------------------------- */

/* Earlier work of the group's other threads, such as sending by themselves, comes before. */
#define GW_SOCK_FORMS_(name, params, ...)                                                                    \
    GW_DEV int gw_sock_##name params                                                                         \
    {                                                                                                        \
        gw_group_sync(GW_BLOCK);                                                                             \
        return (int)GW_SOCK_FIRST_(GW_BLOCK, gw_sock_##name##_thread(__VA_ARGS__));                          \
    }                                                                                                        \
    GW_DEV int gw_sock_##name##_warp params                                                                  \
    {                                                                                                        \
        gw_group_sync(GW_WARP);                                                                              \
        return (int)GW_SOCK_FIRST_(GW_WARP, gw_sock_##name##_thread(__VA_ARGS__));                           \
    }

GW_SOCK_FORMS_(open, (struct gw_net * net, int domain, int type, int protocol, uint64_t deadline_ns), net,
               domain, type, protocol, deadline_ns)
GW_SOCK_FORMS_(bind,
               (struct gw_net * net, int s, const struct sockaddr *addr, socklen_t len, uint64_t deadline_ns),
               net, s, addr, len, deadline_ns)
GW_SOCK_FORMS_(listen, (struct gw_net * net, int s, int backlog, uint64_t deadline_ns), net, s, backlog,
               deadline_ns)
GW_SOCK_FORMS_(accept,
               (struct gw_net * net, int s, struct sockaddr *addr, socklen_t *len, uint64_t deadline_ns), net,
               s, addr, len, deadline_ns)
GW_SOCK_FORMS_(connect,
               (struct gw_net * net, int s, const struct sockaddr *addr, socklen_t len, uint64_t deadline_ns),
               net, s, addr, len, deadline_ns)
GW_SOCK_FORMS_(name, (struct gw_net * net, int s, struct sockaddr *addr, socklen_t *len), net, s, addr, len)
GW_SOCK_FORMS_(peer, (struct gw_net * net, int s, struct sockaddr *addr, socklen_t *len), net, s, addr, len)
GW_SOCK_FORMS_(getsockopt, (struct gw_net * net, int s, int level, int name, void *value, socklen_t *len),
               net, s, level, name, value, len)
GW_SOCK_FORMS_(setsockopt,
               (struct gw_net * net, int s, int level, int name, const void *value, socklen_t len), net, s,
               level, name, value, len)
GW_SOCK_FORMS_(iomap,
               (struct gw_net * net, int s, uint64_t addr, uint32_t rkey, uint64_t n, uint64_t offset,
                uint64_t deadline_ns),
               net, s, addr, rkey, n, offset, deadline_ns)
GW_SOCK_FORMS_(iounmap, (struct gw_net * net, int s, uint64_t addr, uint64_t n, uint64_t deadline_ns), net, s,
               addr, n, deadline_ns)
GW_SOCK_FORMS_(shutdown, (struct gw_net * net, int s, int how, uint64_t deadline_ns), net, s, how,
               deadline_ns)
GW_SOCK_FORMS_(close, (struct gw_net * net, int s, uint64_t deadline_ns), net, s, deadline_ns)
GW_SOCK_FORMS_(poll, (struct gw_net * net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns), net, fds, n,
               deadline_ns)
#undef GW_SOCK_FORMS_

#endif
