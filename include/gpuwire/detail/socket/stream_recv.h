/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_recv.h: receiving over a stream, by the group's first thread whose turn it is; and what poll tells.
 * Included by socket.h, after stream_send.h; names that end in _ are private.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_STREAM_RECV_H
#define GPUWIRE_DETAIL_SOCKET_STREAM_RECV_H

#define GW_STREAM_END_ INT64_MAX

/* It is not so plain: there is nothing after the first `skip` bytes, or there was not a moment ago. */
GW_SLOW_FN int64_t gw_stream_may_end_(const struct gw_stream_ *st, uint64_t skip)
{
    /* Errors and the end are read first and told last: bytes that came before them are received. */
    int err = gw_flow_error_(&st->flow);
    uint32_t end = gw_ld_acquire_u32_gpu(&st->ended) || gw_ld_relaxed_u32_gpu(&st->shut_rd);
    /* Acquire: the count before the bytes. */
    uint64_t have = gw_ld_acquire_u64_gpu(&st->arrived) - st->taken - skip;

    return have ? (int64_t)have : end ? GW_STREAM_END_ : err;
}

/* How many bytes are there after the first `skip`? 0: none yet. GW_STREAM_END_; or an error. */
GW_FN int64_t gw_stream_may_recv_(const struct gw_stream_ *st, const struct gw_sock_ *sock, uint64_t skip)
{
    uint32_t ended = gw_ld_relaxed_u32_gpu(&st->ended), shut = gw_ld_relaxed_u32_gpu(&st->shut_rd),
             error = gw_ld_relaxed_u32_gpu(&st->flow.error), closing = gw_ld_relaxed_u32_gpu(&sock->closing);
    uint64_t have = gw_ld_ahead_u64_(&st->arrived) - st->taken - skip;

    if (closing) return -EBADF;
    if (!have) return ended || shut || error ? gw_stream_may_end_(st, skip) : 0;
    gw_acquired_(); /* the count before the bytes */
    return (int64_t)have;
}

/* As above, but waits for the first byte. Bytes that have come since are counted unless `want` bytes are
 * there. */
GW_SLOW_FN int64_t gw_stream_bytes_(struct gw_stream_ *st, const struct gw_sock_ *sock, uint64_t skip,
                                    uint64_t want, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int64_t may;

    for (;;) {
        may = gw_stream_may_recv_(st, sock, skip);
        if (may > 0 && may != GW_STREAM_END_ && (uint64_t)may >= want) return may;
        if (gw_stream_look_(st)) continue; /* also after an end: the last bytes may not be counted yet */
        if (may) return may;
        may = gw_flow_pause_(&st->flow, &w, deadline_ns);
        if (may) return may;
    }
}

/* The receiver has read a half: the peer is told, if no other thread has done so. */
GW_SLOW_FN void gw_stream_tell_half_(struct gw_stream_ *st)
{
    struct gw_stream_now_ now;

    /* Held for a short time only. It must not be skipped: otherwise the peer might never be told. */
    (void)gw_turn_take_(&st->flow.lock, UINT64_MAX);
    gw_stream_now_(st, &now);
    if (!now.error && gw_stream_due_(&now)) gw_stream_tell_(st);
    gw_turn_leave_(&st->flow.lock);
}

/* n bytes have been read by everybody, and taken: their room is the peer's. Any thread. */
GW_SLOW_FN void gw_stream_free_(struct gw_stream_ *st, uint64_t n)
{
    /* An older value makes the check below true once too often, which does no harm. */
    uint64_t offered = gw_ld_relaxed_u64_gpu(&st->offered), freed;

    /* Release: the group's reads come before the peer is told (gw_stream_tell_). So do those of groups that
     * have added before, since each adds to what the one before it released. */
    freed = gw_add_release_u64_gpu(&st->freed, n) + n;
    /* The thread that takes writes tells the peer of them. The receiver need only tell of a half. */
    if (freed + st->rbuf_size / 2 >= offered) gw_stream_tell_half_(st);
}

/* The same by a thread that gw_stream_deferred_ has counted; which then may look for more. */
GW_FN void gw_stream_free_deferred_(struct gw_stream_ *st, uint64_t n, int look)
{
    gw_stream_free_(st, n);
    if (look) (void)gw_stream_look_(st);
    gw_stream_caught_up_(st);
}

/* n bytes are taken, if they are there; gw_stream_free_ has to follow. -EINVAL. */
GW_FN int gw_stream_take_(struct gw_stream_ *st, uint64_t n)
{
    if (n > gw_ld_relaxed_u64_gpu(&st->arrived) - st->taken) return -EINVAL;
    st->taken += n;
    return 0;
}

/* The failure, as an errno. */
GW_FN int gw_stream_failure_(struct gw_stream_ *st, const struct gw_sock_ *sock)
{
    while (!gw_ld_relaxed_u32_gpu(&sock->closing) && gw_stream_look_(st)) continue;
    return -gw_flow_error_(&st->flow);
}

/* The events that poll tells of it. */
GW_FN int gw_stream_events_(struct gw_stream_ *st, struct gw_sock_ *sock)
{
    struct gw_stream_out_ o;
    int events = 0, err, ended;

    while (!gw_ld_relaxed_u32_gpu(&sock->closing) && gw_stream_look_(st)) continue;
    err = gw_flow_error_(&st->flow);
    ended = gw_ld_relaxed_u32_gpu(&st->ended) || gw_ld_relaxed_u32_gpu(&st->shut_rd);
    if (gw_stream_may_recv_(st, sock, 0))
        events |= POLLIN;                 /* bytes, the end or an error: receiving does not wait */
    if (gw_turn_try_(&sock->send_lock)) { /* else a thread sends, and we cannot know */
        gw_stream_out_(st, sock, &o);
        if (gw_stream_may_send_(&o)) events |= POLLOUT;
        if (ended && st->shut_wr) events |= POLLHUP;
        gw_turn_leave_(&sock->send_lock);
    }
    if (gw_ld_relaxed_u32_gpu(&st->closed)) return events | POLLHUP;
    return err ? events | POLLERR | POLLHUP : events;
}

#endif
