/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind.h: the one place where sockets of different kinds part: each step that calls on data are made of, for
 * a socket that has begun. Included by socket.h; names that end in _ are private.
 *
 * The first thread of a group makes these steps. Sends and receives that copy have their own (stream_group.h,
 * host_stream_group.h); what is done in place, and all else, has these. Datagrams go and come whole, by two
 * calls of their own (host_datagram.h), and have only the steps here that do not move bytes.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_KIND_H
#define GPUWIRE_DETAIL_SOCKET_KIND_H

/* The host's stream of a socket; NULL: it is a stream over RDMA (or has datagrams: gw_sock_datagram_). */
GW_FN struct gw_host_stream_ *gw_sock_host_stream_(struct gw_net *net, int s)
{
    return net->sock[s].kind == GW_SOCK_STREAM_ || net->sock[s].kind == GW_SOCK_DATAGRAM_
               ? NULL
               : &net->host_stream[s];
}

/* The end of a socket for datagrams over RDMA; else NULL. */
GW_FN struct gw_datagram_end_ *gw_sock_datagram_(struct gw_net *net, int s)
{
    return net->sock[s].kind == GW_SOCK_DATAGRAM_ ? gw_datagram_(net, s) : NULL;
}

/* ---- sending: whose turn it is ------------------------------------------------------------------------ */

/* How many bytes can go now, in one row? 0: none yet; or an error. */
GW_FN int64_t gw_sock_may_send_(struct gw_net *net, int s)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    struct gw_stream_out_ o;

    if (p) return gw_host_stream_may_send_(p);
    gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    return gw_stream_may_send_(&o);
}

/* As above, but waits. */
GW_FN int64_t gw_sock_room_(struct gw_net *net, int s, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    struct gw_stream_out_ o;

    if (p) return gw_host_stream_room_(p, deadline_ns);
    gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    return gw_stream_room_(&o, deadline_ns);
}

/* Where they are to be put. */
GW_FN uint8_t *gw_sock_room_at_(struct gw_net *net, int s)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    struct gw_stream_ *st;

    if (p) return p->wbuf + (p->put & (p->wbuf_size - 1));
    st = &net->stream[s];
    return st->wbuf + (st->wpos & (st->wbuf_size - 1));
}

/* Sends n bytes that have been put there. -EINVAL: more than there was room for. */
GW_FN int gw_sock_put_(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    struct gw_stream_out_ o;
    int64_t may;

    if (!p) gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    may = p ? gw_host_stream_may_send_(p)
            : gw_stream_may_send_(&o); /* what there was room for, there still is */
    if (may < 0) return (int)may;
    if (n > (uint64_t)may) return -EINVAL;
    if (!p) return gw_stream_put_all_(&o, (uint32_t)n, deadline_ns);
    gw_host_stream_put_(p, (uint32_t)n);
    return 0;
}

/* As shutdown(2). */
GW_FN int gw_sock_shut_(struct gw_net *net, int s, int how, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    if (gw_sock_datagram_(net, s)) return gw_datagram_shutdown_(gw_sock_datagram_(net, s), how);
    return p ? gw_host_stream_shutdown_(p, how) : gw_stream_shutdown_(&net->stream[s], how, deadline_ns);
}

/* Before it is closed, with both turns: 0 when the peer's side has all that was sent, or will never; or
 * -ETIMEDOUT. */
GW_FN int gw_sock_goodbye_(struct gw_net *net, int s, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    if (gw_sock_datagram_(net, s)) return gw_datagram_goodbye_(gw_sock_datagram_(net, s), deadline_ns);
    return p ? gw_host_stream_goodbye_(p, deadline_ns) : gw_stream_goodbye_(&net->stream[s], deadline_ns);
}

/* ---- receiving: whose turn it is ---------------------------------------------------------------------- */

/* How many bytes are there after the first `skip`? 0: none yet. GW_STREAM_END_; or an error. */
GW_FN int64_t gw_sock_may_recv_(struct gw_net *net, int s, uint64_t skip)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    return p ? gw_host_stream_may_recv_(p, skip) : gw_stream_may_recv_(&net->stream[s], &net->sock[s], skip);
}

/* As above, but waits for `want` bytes, the end, or an error; and tells of fewer when that comes. */
GW_FN int64_t gw_sock_bytes_(struct gw_net *net, int s, uint64_t skip, uint64_t want, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    return p ? gw_host_stream_bytes_(p, skip, deadline_ns)
             : gw_stream_bytes_(&net->stream[s], &net->sock[s], skip, want, deadline_ns);
}

/* Where they lie, and how many of `n` of them in a row. */
GW_FN const uint8_t *gw_sock_bytes_at_(struct gw_net *net, int s, uint64_t skip, uint64_t n, uint32_t *row)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    struct gw_stream_ *st = p ? NULL : &net->stream[s];
    uint32_t size = p ? p->rbuf_size : st->rbuf_size;
    uint64_t at = ((p ? p->taken : st->taken) + skip) & (size - 1);

    *row = gw_smaller_(n, size - at);
    return (p ? p->rbuf : st->rbuf) + at;
}

/* The first n have been read. -EINVAL: there are fewer. */
GW_FN int gw_sock_take_(struct gw_net *net, int s, uint64_t n)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);
    int err = p ? gw_host_stream_take_(p, n) : gw_stream_take_(&net->stream[s], n);

    if (!p && !err && n) gw_stream_free_(&net->stream[s], n);
    return err;
}

/* ---- anybody ------------------------------------------------------------------------------------------ */

/* What poll tells. */
GW_FN int gw_sock_events_(struct gw_net *net, int s)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    if (gw_sock_datagram_(net, s)) return gw_datagram_events_(&net->sock[s], gw_sock_datagram_(net, s));
    if (p && net->sock[s].kind == GW_SOCK_HOST_DATAGRAM_) return gw_host_datagram_events_(p);
    return p ? gw_host_stream_events_(p) : gw_stream_events_(&net->stream[s], &net->sock[s]);
}

/* The failure, as an errno; 0: none. */
GW_FN int gw_sock_failure_(struct gw_net *net, int s)
{
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    if (gw_sock_datagram_(net, s))
        return gw_ld_relaxed_u32_gpu(&gw_sock_datagram_(net, s)->failed) ? ECONNRESET : 0;
    return p ? gw_host_stream_failure_(p) : gw_stream_failure_(&net->stream[s], &net->sock[s]);
}

/* The options that matter to kernels while it is connected: they may have changed. */
GW_FN void gw_sock_options_(struct gw_net *net, int s)
{
    struct gw_flow_ *l = net->stream ? &net->stream[s].flow : NULL;
    uint64_t idle = gw_sock_opt_(net, s, GW_SOCK_OPT_IDLE_) * (uint64_t)GW_SOCK_SECOND_;

    if (gw_sock_host_stream_(net, s) || gw_sock_datagram_(net, s))
        return; /* they are the host's socket's; or there are none */
    if (!idle) idle = net->keepalive_ns;
    if (!gw_sock_opt_(net, s, GW_SOCK_OPT_KEEPALIVE_)) idle = 0;
    gw_st_relaxed_u64_gpu(&l->give_up_ns, gw_sock_opt_(net, s, GW_SOCK_OPT_INTERVAL_) *
                                              (uint64_t)gw_sock_opt_(net, s, GW_SOCK_OPT_COUNT_) *
                                              GW_SOCK_SECOND_);
    gw_st_relaxed_u64_gpu(&l->keepalive_ns, idle);
    gw_st_relaxed_u64_gpu(&l->ask_ns, 0); /* again, from the next wait on */
}

/* A thread polls it, and is about to sleep. */
GW_FN void gw_sock_tend_(struct gw_net *net, int s, uint64_t now)
{
    struct gw_flow_ *l;

    if (s < 0 || (uint32_t)s >= net->count || !gw_ld_acquire_u32_gpu(&net->sock[s].begun)) return;
    if (gw_sock_host_stream_(net, s) || gw_sock_datagram_(net, s))
        return; /* the host's socket sees to that; or it cannot be done */
    l = &net->stream[s].flow;
    if (!gw_ld_relaxed_u64_gpu(&l->keepalive_ns) || now < gw_ld_relaxed_u64_gpu(&l->ask_ns)) return;
    /* The closing thread keeps the lock. */
    if (!gw_turn_try_(&l->lock)) return;
    (void)gw_flow_tend_(l, now);
    gw_turn_leave_(&l->lock);
}

/* It is connected: makes ready what its kind needs. */
GW_FN void gw_sock_begin_(struct gw_net *net, int s)
{
    uint32_t rbuf = gw_sock_opt_(net, s, GW_SOCK_OPT_RBUF_), wbuf = gw_sock_opt_(net, s, GW_SOCK_OPT_WBUF_);
    struct gw_host_stream_ *p = gw_sock_host_stream_(net, s);

    if (gw_sock_datagram_(net, s))
        gw_datagram_begin_(gw_sock_datagram_(net, s));
    else if (p)
        gw_host_stream_begin_(p, rbuf, wbuf);
    else
        gw_stream_begin_(&net->stream[s], &net->info[s].peer, rbuf, wbuf);
    gw_sock_options_(net, s);
}

/* It is closing: the threads that wait are to see that soon. */
GW_FN void gw_sock_startle_(struct gw_net *net, int s)
{
    if (net->host && gw_sock_host_stream_(net, s)) gw_cpu_host_stream_wake_(net->host_stream[s].ends);
}

/* It is being closed, and no thread has a turn. Keeps out threads that look without one, until it is opened
 * again. */
GW_FN void gw_sock_seal_(struct gw_net *net, int s)
{
    if (gw_sock_host_stream_(net, s)) return; /* whose counts anybody may look at */
    /* Threads that poll hold the flow's lock for moments. It stays with us, so that no other thread touches
     * the queues while the helper makes them again. */
    (void)gw_turn_take_(
        gw_sock_datagram_(net, s) ? &gw_sock_datagram_(net, s)->lock : &net->stream[s].flow.lock, UINT64_MAX);
    if (!gw_sock_datagram_(net, s)) gw_stream_quiesce_(&net->stream[s]);
}

/* It has been given out by the helper: undoes that. */
GW_FN void gw_sock_unseal_(struct gw_net *net, int s)
{
    if (net->stream) gw_st_relaxed_u32_gpu(&net->stream[s].flow.lock, 0);
}

#endif
