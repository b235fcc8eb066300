/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_kind_impl.h: the one place where sockets of different kinds part: each step that calls on data are made of,
 * for a socket that has begun. Included by socket.h; names that end in _ are private.
 *
 * The first thread of a group makes these steps, but for the two that say where bytes lie, which every thread
 * asks for itself: between them the group has met.
 */
#ifndef GPUWIRE_SOCKET_KIND_IMPL_H
#define GPUWIRE_SOCKET_KIND_IMPL_H

/* ---- sending: whose turn it is ------------------------------------------------------------------------ */

/* How many bytes can go now, in one row? 0: none yet; or an error. */
GW_FN int64_t gw_sock_may_send_(struct gw_net *net, int s)
{
    return gw_stream_may_send_(&net->stream[s]);
}

/* As above, but waits. */
GW_FN int64_t gw_sock_room_(struct gw_net *net, int s, uint64_t deadline_ns)
{
    return gw_stream_room_(&net->stream[s], deadline_ns);
}

/* Where they are to be put. */
GW_FN uint8_t *gw_sock_room_at_(struct gw_net *net, int s)
{
    struct gw_stream_ *st = &net->stream[s];

    return st->wbuf + (st->wpos & (st->wbuf_size - 1));
}

/* Sends n bytes that have been put there. */
GW_FN int gw_sock_put_(struct gw_net *net, int s, uint32_t n, uint64_t deadline_ns)
{
    return gw_stream_put_all_(&net->stream[s], n, deadline_ns);
}

/* As shutdown(2). */
GW_FN int gw_sock_shut_(struct gw_net *net, int s, int how, uint64_t deadline_ns)
{
    return gw_stream_shutdown_(&net->stream[s], how, deadline_ns);
}

/* Before it is closed, with both turns: 0 when the peer's side has all that was sent, or will never; or -ETIMEDOUT. */
GW_FN int gw_sock_goodbye_(struct gw_net *net, int s, uint64_t deadline_ns)
{
    return gw_stream_goodbye_(&net->stream[s], deadline_ns);
}

/* ---- receiving: whose turn it is ---------------------------------------------------------------------- */

/* How many bytes are there behind the first `skip`? 0: none yet. GW_STREAM_END_; or an error. */
GW_FN int64_t gw_sock_may_recv_(struct gw_net *net, int s, uint64_t skip)
{
    return gw_stream_may_recv_(&net->stream[s], skip);
}

/* As above, but waits for `want` bytes, the end, or an error; and tells of fewer when that comes. */
GW_FN int64_t gw_sock_bytes_(struct gw_net *net, int s, uint64_t skip, uint64_t want, uint64_t deadline_ns)
{
    return gw_stream_bytes_(&net->stream[s], skip, want, deadline_ns);
}

/* Where they lie, and how many of `n` of them in a row. */
GW_FN const uint8_t *gw_sock_bytes_at_(struct gw_net *net, int s, uint64_t skip, uint64_t n, uint32_t *row)
{
    struct gw_stream_ *st = &net->stream[s];
    uint64_t at = (st->taken + skip) & (st->rbuf_size - 1);

    *row = gw_smaller_(n, st->rbuf_size - at);
    return st->rbuf + at;
}

/* The first n have been read. -EINVAL: there are not so many. */
GW_FN int gw_sock_take_(struct gw_net *net, int s, uint64_t n)
{
    return gw_stream_take_(&net->stream[s], n);
}

/* ---- anybody ------------------------------------------------------------------------------------------ */

/* What poll tells. */
GW_FN int gw_sock_events_(struct gw_net *net, int s)
{
    return gw_stream_events_(&net->stream[s]);
}

/* What has failed, as an errno; 0: nothing. */
GW_FN int gw_sock_failure_(struct gw_net *net, int s)
{
    return gw_stream_failure_(&net->stream[s]);
}

/* The options that matter while it is connected: they may have changed. */
GW_FN void gw_sock_options_(struct gw_net *net, int s)
{
    struct gw_flow_ *l = &net->stream[s].flow;
    uint64_t idle = gw_sock_opt_(net, s, GW_SOCK_OPT_IDLE_) * (uint64_t)GW_SOCK_SECOND_;

    if (!idle) idle = net->keepalive_ns;
    if (!gw_sock_opt_(net, s, GW_SOCK_OPT_KEEPALIVE_)) idle = 0;
    gw_st_relaxed_u64_gpu(&l->give_up_ns, gw_sock_opt_(net, s, GW_SOCK_OPT_INTERVAL_) *
                                              (uint64_t)gw_sock_opt_(net, s, GW_SOCK_OPT_COUNT_) *
                                              GW_SOCK_SECOND_);
    gw_st_relaxed_u64_gpu(&l->keepalive_ns, idle);
}

/* It is connected: makes ready what its kind needs. */
GW_FN void gw_sock_begin_(struct gw_net *net, int s)
{
    gw_stream_begin_(&net->stream[s], &net->info[s].peer, gw_sock_opt_(net, s, GW_SOCK_OPT_RBUF_),
                     gw_sock_opt_(net, s, GW_SOCK_OPT_WBUF_));
    gw_sock_options_(net, s);
}

/* It is being closed, and nobody uses it: keeps out whoever looks without a turn, until it is opened again. */
GW_FN void gw_sock_seal_(struct gw_net *net, int s)
{
    /* Who polls holds the flow's lock for moments. It stays with us, so that nobody touches the queues while the helper
     * makes them new. */
    (void)gw_turn_take_(&net->stream[s].flow.lock, UINT64_MAX);
}

/* It has been given out by the helper: undoes that. */
GW_FN void gw_sock_unseal_(struct gw_net *net, int s)
{
    gw_st_relaxed_u32_gpu(&net->stream[s].flow.lock, 0);
}

#endif
