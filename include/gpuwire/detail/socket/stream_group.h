/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_group.h: how a group sends and receives over a stream of ours; it has entered. Included by socket.h,
 * after iovec.h; names that end in _ are private.
 *
 * The first thread says to all at once how many bytes, and where. Some work may end after the call. Other
 * threads do it, while the first one goes on. The second one shows the NIC what is to be sent. The third one
 * gives room back and looks for what will be needed next. On a GPU these are first threads of warps; CPU
 * threads gain nothing by it.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_STREAM_GROUP_H
#define GPUWIRE_DETAIL_SOCKET_STREAM_GROUP_H

#ifdef GW_STREAM_CPU_DEFERS
enum { GW_STREAM_CPU_STEP_ = 1 }; /* for tests: CPU threads do so as well */
#else
enum { GW_STREAM_CPU_STEP_ = 0 };
#endif

/* Of a group's threads the one that shows requests after its turn, and the one that looks. 0: there are
 * none. */
GW_DEV uint32_t gw_stream_second_(enum gw_group g)
{
    uint32_t step =
        GW_ON_GPU ? gw_warp_size() : (uint32_t)GW_STREAM_CPU_STEP_; /* from one of them to the next */

    return g == GW_BLOCK && gw_block_dim() > 2 * step ? step : 0;
}

GW_DEV uint32_t gw_stream_third_(enum gw_group g)
{
    return 2 * gw_stream_second_(g);
}

/*
 * For a send of n bytes: how many threads, from the first on, have other things to do and take no part in the
 * copy. It is 0 for a short send, where that would cost more than it spares. It is 0 for CPU threads, which
 * would hold the queue pair's lock while they copy. Four warps copy as fast as eight.
 */
GW_DEV uint32_t gw_stream_spare_(enum gw_group g, uint64_t n)
{
    if (!GW_ON_GPU || g != GW_BLOCK || n < GW_SOCK_AHEAD_) return 0;
    return gw_block_dim() >= 6 * gw_warp_size() ? 2 * gw_warp_size() : 0;
}

/* There is room for `may` bytes in the peer's half that is written to: how much for n in both halves? For
 * groups that can send two writes at a time. Otherwise a send that ends after the end of a half takes two
 * rounds. */
GW_FN uint32_t gw_stream_both_(const struct gw_stream_out_ *o, uint32_t may, uint64_t n)
{
    uint32_t at = (uint32_t)o->wpos & (o->wbuf_size - 1), row;

    if (may != o->length || !o->other || o->credit < 2 || o->marked - o->done + 2 > o->writes) return may;
    row =
        gw_smaller_(gw_smaller_(o->wbuf_size - (o->wpos - o->wdone), o->wbuf_size - at), gw_stream_chunk_(o));
    row = gw_smaller_(gw_smaller_(row, n), o->length + (uint64_t)o->other);
    return row >= GW_SOCK_AHEAD_ ? row : may;
}

/* Room for up to n bytes: how many, in one write or with `both` in two, and what to look for during the copy;
 * or an error. */
GW_SLOW_FN int64_t gw_stream_next_room_(struct gw_stream_out_ *o, uint64_t n, uint32_t both,
                                        uint64_t deadline_ns, uint64_t *at)
{
    int64_t may = gw_stream_room_(o, deadline_ns);

    if (may < 0) return may;
    if (both && (uint64_t)may < n) may = gw_stream_both_(o, (uint32_t)may, n);
    may = gw_smaller_((uint64_t)may, n);
    *at = (uintptr_t)(o->wbuf + (o->wpos & (o->wbuf_size - 1)));
    return may | gw_stream_short_(o, (uint32_t)may);
}

/*
 * Copies the next bytes to `at`, as many as `may` says, while the first thread prepares the request that
 * sends them. The others do not wait for the second warp's first thread, which shows it to the NIC: the next
 * steps, and the next call's, take place at the same time.
 */
GW_DEV int64_t gw_stream_send_ahead_(enum gw_group g, struct gw_stream_out_ *o, struct gw_stream_ *st,
                                     struct gw_sock_vec_ *v, uint64_t at, int64_t may, uint32_t spare,
                                     uint64_t deadline_ns)
{
    uint32_t rank = gw_group_rank(g), second = rank == gw_stream_second_(g);
    int64_t parts = 0;
    uint64_t index = 0;

    if (rank == 0) parts = gw_stream_prepare_all_(o, (uint32_t)may, &index, deadline_ns);
    if (rank == 0 && may & GW_STREAM_REAP_) gw_stream_reap_(o);
    if (second && may & GW_STREAM_LOOK_) (void)gw_stream_look_(st);
    gw_sock_vec_copy_(g, v, (uint8_t *)(uintptr_t)at, (uint32_t)may, 1, spare);
    parts =
        (int64_t)gw_group_first_two(g, (uint64_t)parts, &index); /* all bytes before the request is shown */
    if (parts > 0 && second) gw_stream_show_(st, index, (uint32_t)parts);
    return parts < 0 ? parts : 0;
}

/* Copies them, and sends them. */
GW_DEV int64_t gw_stream_send_part_(enum gw_group g, struct gw_stream_out_ *o, struct gw_stream_ *st,
                                    struct gw_sock_vec_ *v, uint64_t at, int64_t may, uint64_t deadline_ns)
{
    uint32_t n = (uint32_t)may, spare = gw_stream_spare_(g, n);

    if (spare) return gw_stream_send_ahead_(g, o, st, v, at, may, spare, deadline_ns);
    gw_sock_vec_copy_(g, v, (uint8_t *)(uintptr_t)at, n, 1, 0);
    gw_group_sync(g); /* all parts before the post that sends them */
    return GW_SOCK_FIRST_(g, gw_stream_put_all_(o, n, deadline_ns));
}

/* The first thread's first step, when it has entered: what it knows of the stream, and room for the first of
 * n bytes. */
GW_FN int64_t gw_stream_first_room_(struct gw_net *net, int s, struct gw_stream_out_ *o, uint64_t n,
                                    uint32_t both, uint64_t deadline_ns, uint64_t *at)
{
    gw_stream_out_(&net->stream[s], &net->sock[s], o);
    if (!n) return gw_stream_may_send_(o); /* nothing goes, but an error is told */
    return gw_stream_next_room_(o, n, both, deadline_ns, at);
}

/* After that, whose answers are `may` and `at`. */
GW_SLOW_DEV int64_t gw_stream_send_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                      struct gw_stream_out_ *o, int64_t may, uint64_t at,
                                      uint64_t deadline_ns)
{
    uint64_t n = v.left;
    uint32_t first = gw_group_rank(g) == 0;
    int64_t err;

    while (v.left && may > 0) {
        err = gw_stream_send_part_(g, o, &net->stream[s], &v, at, may, deadline_ns);
        if (err) {
            v.left += (uint32_t)may;
            may = err;
        } else if (v.left) {
            if (first) may = gw_stream_next_room_(o, v.left, gw_stream_spare_(g, v.left), deadline_ns, &at);
            may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
        }
    }
    if (first) gw_turn_leave_(&net->sock[s].send_lock);
    return n != v.left || may > 0 ? (int64_t)(n - v.left) : may;
}

/* n bytes that lie where there was room go: prepared. How many requests, of index *at, and whether to look;
 * or an error. */
GW_SLOW_FN int64_t gw_stream_commit_(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns,
                                     uint64_t *at)
{
    struct gw_stream_out_ o;
    int64_t may, ahead;
    int parts;

    gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    may = gw_stream_may_send_(&o); /* what there was room for, there still is */
    if (may < 0) return may;
    if (n > (uint64_t)may) return -EINVAL;
    ahead = gw_stream_short_(&o, (uint32_t)n);
    parts = gw_stream_prepare_all_(&o, (uint32_t)n, at, deadline_ns);
    if (parts <= 0 || !ahead) return parts;
    /* For the thread that looks. gw_stream_prepare_all_ has counted the one that shows. */
    gw_stream_deferred_(&net->stream[s]);
    return parts | ahead;
}

/* Up to n bytes after the first `skip`: how many, in a row; 0: none; GW_STREAM_END_; or an error. */
GW_SLOW_FN int64_t gw_stream_next_bytes_(struct gw_stream_ *st, const struct gw_sock_ *sock, uint64_t skip,
                                         uint64_t n, int waits, uint64_t deadline_ns, uint64_t *at)
{
    uint32_t size = st->rbuf_size, off = (uint32_t)(st->taken + skip) & (size - 1);
    uint8_t *buffer = st->rbuf;
    int64_t may =
        waits ? gw_stream_bytes_(st, sock, skip, n, deadline_ns) : gw_stream_may_recv_(st, sock, skip);

    *at = (uintptr_t)(buffer + off);
    if (may <= 0 || may == GW_STREAM_END_) return may;
    return gw_smaller_(gw_smaller_((uint64_t)may, n), size - off);
}

/* A group has read n bytes, all its threads. The room is given back after the turn. */
GW_DEV void gw_stream_took_(enum gw_group g, struct gw_stream_ *st, uint64_t n)
{
    uint32_t rank = gw_group_rank(g), third = gw_stream_third_(g);

    if (rank == 0) {
        st->taken += n;
        if (third) gw_stream_deferred_(st);
    }
    if (rank == third && third)
        gw_stream_free_deferred_(st, n, 0);
    else if (rank == third)
        gw_stream_free_(st, n);
}

/* After the first of these, whose answers are `may` and `at`. */
GW_SLOW_DEV int64_t gw_stream_recv_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                      int flags, int64_t may, uint64_t at, uint64_t deadline_ns)
{
    struct gw_stream_ *st = &net->stream[s];
    uint64_t n = v.left, got = 0, peeks = flags & MSG_PEEK;
    uint32_t spare, first = gw_group_rank(g) == 0;

    while (got < n && may > 0 && may != GW_STREAM_END_) {
        spare = gw_sock_spare_(g, (uint64_t)may);
        if (first && spare) (void)gw_stream_look_(st);
        gw_sock_vec_copy_(g, &v, (uint8_t *)(uintptr_t)at, (uint64_t)may, 0, spare);
        gw_group_sync(g); /* everybody has copied before the room is given back */
        if (!peeks) gw_stream_took_(g, st, (uint64_t)may);
        got += (uint64_t)may;
        if (got == n) break;
        /* After the first byte only calls that want all wait for more. */
        if (first)
            may = gw_stream_next_bytes_(st, &net->sock[s], peeks ? got : 0, n - got,
                                        !peeks && flags & MSG_WAITALL, deadline_ns, &at);
        may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
    }
    if (first) gw_turn_leave_(&net->sock[s].recv_lock);
    return got || !n || may == GW_STREAM_END_ ? (int64_t)got : may;
}

#endif
