/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_stream_group.h: how a group sends and receives over a stream of the host's; it has entered. Included
 * by socket.h, after iovec.h; names that end in _ are private.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_HOST_STREAM_GROUP_H
#define GPUWIRE_DETAIL_SOCKET_HOST_STREAM_GROUP_H

/* Room for up to n bytes, at *at; or an error. Of no bytes an error is told. The first thread. */
GW_FN int64_t gw_host_stream_next_room_(struct gw_host_stream_ *p, uint64_t n, uint64_t deadline_ns,
                                        uint64_t *at)
{
    int64_t may = n ? gw_host_stream_room_(p, deadline_ns) : gw_host_stream_may_send_(p);

    *at = (uintptr_t)(p->wbuf + (p->put & (p->wbuf_size - 1)));
    return may < 0 ? may : (int64_t)gw_smaller_((uint64_t)may, n);
}

/* After that, whose answers are `may` and `at`. */
GW_SLOW_DEV int64_t gw_host_stream_send_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                           int64_t may, uint64_t at, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = &net->host_stream[s];
    uint64_t n = v.left;
    uint32_t first = gw_group_rank(g) == 0;

    while (v.left && may > 0) {
        gw_sock_vec_copy_(g, &v, (uint8_t *)(uintptr_t)at, (uint64_t)may, 1, 0);
        gw_group_sync(g); /* all parts before the proxy is told of them */
        if (first) gw_host_stream_put_(p, (uint32_t)may);
        if (!v.left) break;
        if (first) may = gw_host_stream_next_room_(p, v.left, deadline_ns, &at);
        may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
    }
    if (first) gw_turn_leave_(&net->sock[s].send_lock);
    return n != v.left || may > 0 ? (int64_t)(n - v.left) : may;
}

/* Up to n bytes after the first `skip`: how many, in a row, at *at; 0: none; GW_STREAM_END_; or an error.
 * The first thread. */
GW_FN int64_t gw_host_stream_next_bytes_(struct gw_host_stream_ *p, uint64_t skip, uint64_t n, int waits,
                                         uint64_t deadline_ns, uint64_t *at)
{
    uint32_t size = p->rbuf_size, off = (uint32_t)(p->taken + skip) & (size - 1);
    int64_t may = waits ? gw_host_stream_bytes_(p, skip, deadline_ns) : gw_host_stream_may_recv_(p, skip);

    *at = (uintptr_t)(p->rbuf + off);
    if (may <= 0 || may == GW_STREAM_END_) return may;
    return gw_smaller_(gw_smaller_((uint64_t)may, n), size - off);
}

/* After the first of these, whose answers are `may` and `at`. */
GW_SLOW_DEV int64_t gw_host_stream_recv_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                           int flags, int64_t may, uint64_t at, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = &net->host_stream[s];
    uint64_t n = v.left, got = 0, peeks = flags & MSG_PEEK;
    uint32_t first = gw_group_rank(g) == 0;

    while (got < n && may > 0 && may != GW_STREAM_END_) {
        gw_sock_vec_copy_(g, &v, (uint8_t *)(uintptr_t)at, (uint64_t)may, 0, 0);
        gw_group_sync(g); /* everybody has copied before the room is given back */
        if (first && !peeks) (void)gw_host_stream_take_(p, (uint64_t)may);
        got += (uint64_t)may;
        if (got == n) break;
        /* After the first byte only calls that want all wait for more. */
        if (first)
            may = gw_host_stream_next_bytes_(p, peeks ? got : 0, n - got, !peeks && flags & MSG_WAITALL,
                                             deadline_ns, &at);
        may = (int64_t)gw_group_first_two(g, (uint64_t)may, &at);
    }
    if (first) gw_turn_leave_(&net->sock[s].recv_lock);
    return got || !n || may == GW_STREAM_END_ ? (int64_t)got : may;
}

#endif
