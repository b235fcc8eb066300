/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_data_impl.h: how a group sends and receives over a stream of ours; it has entered. Included by socket.h, behind
 * socket_vec_impl.h; names that end in _ are private.
 *
 * The first thread says to all at once how many bytes, and where. It does not copy where it has something to wait for next:
 * then it looks for that meanwhile, and its warp with it.
 */
#ifndef GPUWIRE_STREAM_DATA_IMPL_H
#define GPUWIRE_STREAM_DATA_IMPL_H

/* Besides the number of bytes: the first warp looks ahead. */
#define GW_STREAM_AHEAD_ ((int64_t)1 << 40)

/* Room for up to n bytes: how many, in one write; or an error. */
GW_SLOW_FN int64_t gw_stream_next_room_(struct gw_stream_out_ *o, uint64_t n, uint64_t deadline_ns,
                                        uint64_t *at)
{
    int64_t may = gw_stream_room_(o, deadline_ns);

    if (may < 0) return may;
    may = gw_smaller_((uint64_t)may, n);
    *at = (uintptr_t)(o->st->wbuf + (o->wpos & (o->wbuf_size - 1)));
    return gw_stream_short_(o, (uint32_t)may) ? may | GW_STREAM_AHEAD_ : may;
}

GW_SLOW_DEV int64_t gw_stream_send_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                      uint64_t deadline_ns)
{
    struct gw_stream_out_ o;
    uint64_t n = v.left, at = 0;
    int64_t may = 0, err;
    uint32_t part, spare, first = gw_group_rank(g) == 0;

    if (first) gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    if (!n) may = GW_SOCK_FIRST_(g, gw_stream_may_send_(&o)); /* nothing goes, but an error is told */
    while (v.left) {
        if (first) may = gw_stream_next_room_(&o, v.left, deadline_ns, &at);
        may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
        if (may < 0) break;
        part = (uint32_t)may;
        spare = may & GW_STREAM_AHEAD_ ? gw_sock_spare_(g, part) : 0;
        if (first && spare) gw_stream_look_ahead_(&o);
        gw_sock_vec_copy_(g, &v, (uint8_t *)(uintptr_t)at, part, 1, spare);
        gw_group_sync(g); /* all parts before the post that sends them */
        err = GW_SOCK_FIRST_(g, gw_stream_put_all_(&o, part, deadline_ns));
        if (err) {
            v.left += part;
            may = err;
            break;
        }
    }
    if (first) gw_turn_leave_(&net->sock[s].send_lock);
    return n != v.left || may > 0 ? (int64_t)(n - v.left) : may;
}

/* Up to n bytes behind the first `skip`: how many, in a row; 0: none; GW_STREAM_END_; or an error. */
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

GW_SLOW_DEV int64_t gw_stream_recv_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                      int flags, uint64_t deadline_ns)
{
    struct gw_stream_ *st = &net->stream[s];
    uint64_t n = v.left, got = 0, at = 0, peeked;
    uint32_t spare, first = gw_group_rank(g) == 0;
    int64_t may = 0;
    int waits;

    while (got < n) {
        peeked = flags & MSG_PEEK ? got : 0;
        /* Behind the first byte only those who want all wait for more. */
        waits = !got || (!peeked && flags & MSG_WAITALL);
        if (first) may = gw_stream_next_bytes_(st, &net->sock[s], peeked, n - got, waits, deadline_ns, &at);
        may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
        if (may <= 0 || may == GW_STREAM_END_) break;
        spare = gw_sock_spare_(g, (uint64_t)may);
        if (first && spare) (void)gw_stream_look_(st);
        gw_sock_vec_copy_(g, &v, (uint8_t *)(uintptr_t)at, (uint64_t)may, 0, spare);
        gw_group_sync(g); /* everybody has copied before the room is given back */
        if (first && !(flags & MSG_PEEK)) gw_stream_took_(st, (uint64_t)may);
        got += (uint64_t)may;
    }
    if (first) gw_turn_leave_(&net->sock[s].recv_lock);
    return got || !n || may == GW_STREAM_END_ ? (int64_t)got : may;
}

#endif
