/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_datagram.h: datagram sockets of the host's, UDP or UNIX, as kernels see them. Each is a host stream
 * (host_stream.h) whose rings hold records: a header with an address, and the bytes after it. A record lies
 * in a row; where the ring ends before one does, the rest is skipped. Included by socket.h; names that end in
 * _ are private.
 *
 * Errors of the network come later than the call that caused them, as with the host's sockets, and a call
 * returns each once. A word holds the errno and, above it, how many there have been.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_HOST_DATAGRAM_H
#define GPUWIRE_DETAIL_SOCKET_HOST_DATAGRAM_H

#define GW_HOST_DATAGRAM_SKIP_  0xffffffffu /* a length: the rest of the ring is empty */
#define GW_HOST_DATAGRAM_MAX_   65507u      /* bytes that UDP takes */
#define GW_HOST_DATAGRAM_STAYS_ 0x80000000u /* an error that is told again and again */

struct gw_host_datagram_ {
    uint32_t len, pad[2];
    /* from where, or where to; len 0: nowhere, or the peer that it is connected to */
    struct gw_sock_addr_ addr;
} __attribute__((aligned(16)));

GW_FN uint32_t gw_host_datagram_size_(uint32_t len)
{
    return (uint32_t)sizeof(struct gw_host_datagram_) + ((len + 15) & ~15u);
}

/* The longest datagram that a ring of that size takes: with what is skipped before it, it fits once all are
 * read. */
GW_FN uint32_t gw_host_datagram_max_(uint32_t ring)
{
    return gw_smaller_(ring / 2 - sizeof(struct gw_host_datagram_), GW_HOST_DATAGRAM_MAX_);
}

/* An error that has not been told. */
GW_FN int gw_host_datagram_error_(uint32_t *told, const uint32_t *word)
{
    uint32_t v = gw_ld_relaxed_u32(word);

    if (v == *told) return 0;
    if (!(v & GW_HOST_DATAGRAM_STAYS_)) *told = v;
    return -(int)(v & 0xffff);
}

/* ---- sending: the group's first thread ---------------------------------------------------------------- */

/* Is there room for a record of that size, in a row, at p->put? 1, 0: not yet; or an error. */
GW_FN int gw_host_datagram_may_send_(struct gw_host_stream_ *p, uint32_t size)
{
    uint32_t rest = p->wbuf_size - ((uint32_t)p->put & (p->wbuf_size - 1));
    struct gw_host_datagram_ *d = (struct gw_host_datagram_ *)(p->wbuf + (p->wbuf_size - rest));
    uint64_t room;
    int err;

    if (gw_ld_relaxed_u32_gpu(&p->sock->closing)) return -EBADF;
    if (p->shut & GW_HOST_STREAM_SHUT_WR_) return -EPIPE;
    err = gw_host_datagram_error_(&p->reported_out, &p->ends->refused);
    if (err) return err;
    /* Acquire: the proxy has read before we overwrite. */
    room = p->wbuf_size - (p->put - gw_ld_acquire_u64(&p->ends->sent));
    if (size <= rest) return room >= size;
    if (room < rest) return 0;
    d->len = GW_HOST_DATAGRAM_SKIP_;
    gw_host_stream_put_(p, rest);
    return room - rest >= size;
}

/* Where a datagram goes that is given no address. */
GW_FN int gw_host_datagram_peer_(struct gw_net *net, int s)
{
    if (gw_sock_state_(net, s) == GW_SOCK_CONNECTED_) return 0;
    return gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_) == AF_UNIX ? -ENOTCONN : -EDESTADDRREQ;
}

/* Waits for room and writes the header there. */
GW_SLOW_FN int gw_host_datagram_head_(struct gw_net *net, int s, uint64_t n, const struct sockaddr *to,
                                      socklen_t len, uint64_t deadline_ns)
{
    struct gw_host_stream_wait_ w = gw_host_stream_wait_();
    struct gw_host_stream_ *p = &net->host_stream[s];
    struct gw_sock_addr_ a;
    struct gw_host_datagram_ *d;
    int err;

    if (n > gw_host_datagram_max_(p->wbuf_size)) return -EMSGSIZE;
    a.len = 0;
    err = to ? gw_sock_addr_(&a, to, len) : gw_host_datagram_peer_(net, s);
    while (!err) {
        gw_host_stream_before_(p, &w);
        err = gw_host_datagram_may_send_(p, gw_host_datagram_size_((uint32_t)n));
        if (!err) err = gw_host_stream_pause_(p, &w, deadline_ns);
    }
    if (err < 0) return err;
    d = (struct gw_host_datagram_ *)(p->wbuf + (p->put & (p->wbuf_size - 1)));
    d->len = (uint32_t)n;
    d->addr = a;
    return 0;
}

/* Whose turn it is to send. */
GW_SLOW_DEV int64_t gw_host_datagram_send_g_(enum gw_group g, struct gw_net *net, int s,
                                             struct gw_sock_vec_ v, const struct sockaddr *to, socklen_t len,
                                             uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = &net->host_stream[s];
    uint64_t n = v.left;
    int64_t err = GW_SOCK_FIRST_(g, gw_host_datagram_head_(net, s, n, to, len, deadline_ns));

    if (!err) {
        gw_sock_vec_copy_(g, &v, p->wbuf + (p->put & (p->wbuf_size - 1)) + sizeof(struct gw_host_datagram_),
                          n, 1, 0);
        gw_group_sync(g); /* all parts before the record is told of */
        if (gw_group_rank(g) == 0) gw_host_stream_put_(p, gw_host_datagram_size_((uint32_t)n));
    }
    if (gw_group_rank(g) == 0) gw_turn_leave_(&net->sock[s].send_lock);
    return err ? err : (int64_t)n;
}

/* ---- receiving ---------------------------------------------------------------------------------------- */

/* Is there a record at p->taken? 1; 0: not yet. GW_STREAM_END_; or an error. */
GW_FN int64_t gw_host_datagram_may_recv_(struct gw_host_stream_ *p)
{
    uint32_t at = (uint32_t)p->taken & (p->rbuf_size - 1);

    if (gw_ld_relaxed_u32_gpu(&p->sock->closing)) return -EBADF;
    p->seen = gw_ld_acquire_u64(&p->ends->arrived); /* acquire: the count before the records */
    if (p->seen == p->taken) {
        if (gw_ld_relaxed_u32_gpu(&p->shut) & GW_HOST_STREAM_SHUT_RD_) return GW_STREAM_END_;
        return gw_host_datagram_error_(&p->reported_in, &p->ends->error);
    }
    /* A skipped part comes together with the record after it. */
    if (((const struct gw_host_datagram_ *)(p->rbuf + at))->len == GW_HOST_DATAGRAM_SKIP_)
        (void)gw_host_stream_take_(p, p->rbuf_size - at);
    return 1;
}

GW_SLOW_FN int64_t gw_host_datagram_next_(struct gw_host_stream_ *p, uint64_t deadline_ns)
{
    struct gw_host_stream_wait_ w = gw_host_stream_wait_();
    int64_t may;

    for (;;) {
        gw_host_stream_before_(p, &w);
        may = gw_host_datagram_may_recv_(p);
        if (!may) may = gw_host_stream_pause_(p, &w, deadline_ns);
        if (may) return may;
    }
}

/* Whose turn it is to receive. One datagram; what there is no room for is lost. */
GW_SLOW_DEV int64_t gw_host_datagram_recv_g_(enum gw_group g, struct gw_net *net, int s,
                                             struct gw_sock_vec_ v, int flags, struct sockaddr *from,
                                             socklen_t *len, uint64_t deadline_ns)
{
    struct gw_host_stream_ *p = &net->host_stream[s];
    int64_t may = GW_SOCK_FIRST_(g, gw_host_datagram_next_(p, deadline_ns));
    struct gw_host_datagram_ *d = (struct gw_host_datagram_ *)(p->rbuf + (p->taken & (p->rbuf_size - 1)));
    uint32_t n = 0, whole = 0;

    if (may == 1) {
        whole = d->len;
        n = gw_smaller_(whole, v.left);
        gw_sock_vec_copy_(g, &v, (uint8_t *)(d + 1), n, 0, 0);
        gw_group_sync(g); /* everybody has copied before the room is given back */
        if (gw_group_rank(g) == 0) {
            (void)gw_sock_tell_addr_(&d->addr, from, len);
            if (!(flags & MSG_PEEK)) (void)gw_host_stream_take_(p, gw_host_datagram_size_(whole));
        }
    }
    gw_group_sync(g); /* no thread reads the socket's counts any more */
    if (gw_group_rank(g) == 0) gw_turn_leave_(&net->sock[s].recv_lock);
    return may == GW_STREAM_END_ ? 0 : may < 0 ? may : flags & MSG_TRUNC ? whole : n;
}

#endif
