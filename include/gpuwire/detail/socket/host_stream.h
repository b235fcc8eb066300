/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_stream.h: a connected stream socket of the host's, TCP or UNIX, as kernels see it. It has two rings in
 * host memory that both sides see, and counts of how far each side has come. The proxy (src/socket/proxy.c)
 * moves bytes between the rings and the host's socket. Included by socket.h; names that end in _ are private.
 *
 * Every word has one writer, so nothing here needs an atomic across the bus. A kernel tells the proxy by a
 * bell that there is something to do. A bell is a byte of the socket's own and one of its group of 64. Only
 * the proxy clears them, the group's first.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_HOST_STREAM_H
#define GPUWIRE_DETAIL_SOCKET_HOST_STREAM_H

enum { GW_BELL_GROUP_ = 64, GW_HOST_STREAM_CHUNK_ = 65536 };

enum gw_host_stream_shut_ { GW_HOST_STREAM_SHUT_RD_ = 1, GW_HOST_STREAM_SHUT_WR_ = 2 };

/* A kernel and the proxy tell each other of one socket here. */
struct gw_host_stream_ends_ {
    /* The proxy's. */
    uint64_t arrived; /* bytes put into rbuf */
    uint64_t sent;    /* bytes that the host's socket has taken from wbuf */
    uint32_t ended;   /* the peer sends no more */
    uint32_t error;   /* errno: no more bytes come; 0: none. Of datagrams: see host_datagram.h */
    uint32_t refused; /* errno: no more bytes go; 0: none */
    uint32_t full;    /* it receives nothing for want of room: ring when there is some */
    uint32_t news;    /* counts the changes of these; a futex of CPU threads */
    /* The kernels'. */
    uint64_t put __attribute__((aligned(64))); /* bytes put into wbuf */
    uint64_t taken;                            /* bytes read from rbuf */
    uint32_t shut;                             /* enum gw_host_stream_shut_, after what was put */
    /* CPU threads that sleep on news, or are about to. */
    uint32_t sleepers __attribute__((aligned(64)));
} __attribute__((aligned(64)));

struct gw_host_stream_ {
    struct gw_host_stream_ends_ *ends;
    struct gw_sock_ *sock;
    struct gw_sockets *host; /* on CPU threads: to wake the proxy; else NULL */
    uint8_t *bell, *group;
    uint8_t *rbuf, *wbuf;
    uint32_t rbuf_size, wbuf_size;
    uint64_t put;   /* the sender's: as in ends */
    uint32_t shut;  /* written with the sender's turn */
    uint64_t taken; /* the receiver's: as in ends */
    uint64_t seen;  /* the receiver's: `arrived` at some look */
    /* the sender's and the receiver's: the last error of datagrams that was told */
    uint32_t reported_out, reported_in;
} __attribute__((aligned(64)));

/* ---- the proxy ---------------------------------------------------------------------------------------- */

/* What it tells all kernels of the set. After it: a byte for each group of sockets, then one for each socket.
 */
struct gw_sock_proxy_ {
    uint32_t asked; /* a kernel has asked something (struct gw_sock_ask_); as a bell */
} __attribute__((aligned(64)));

#ifdef __CUDACC__
GW_FN void gw_cpu_sock_wake_(struct gw_sockets *set)
{
    (void)set;
}
GW_FN void gw_cpu_host_stream_sleep_(struct gw_host_stream_ends_ *ends, uint32_t news, uint64_t deadline_ns)
{
    (void)ends, (void)news, (void)deadline_ns;
}
GW_FN void gw_cpu_host_stream_wake_(struct gw_host_stream_ends_ *ends)
{
    (void)ends;
}
#else
#ifdef __cplusplus
extern "C" {
#endif
/* Wakes the helper, whose thread the proxy is, if it sleeps. */
GW_API void gw_cpu_sock_wake_(struct gw_sockets *set);
/* Sleeps while ends->news is still so, until the deadline at most; and wakes those who do. */
GW_API void gw_cpu_host_stream_sleep_(struct gw_host_stream_ends_ *ends, uint32_t news, uint64_t deadline_ns);
GW_API void gw_cpu_host_stream_wake_(struct gw_host_stream_ends_ *ends);
#ifdef __cplusplus
}
#endif
#endif

GW_FN void gw_host_stream_ring_(struct gw_host_stream_ *p)
{
    gw_st_release_u8(p->bell, 1);  /* release: what is new comes first */
    gw_st_release_u8(p->group, 1); /* release: the bell comes first */
    if (p->host) gw_cpu_sock_wake_(p->host);
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

struct gw_host_stream_wait_ {
    uint64_t start;
    uint32_t round, news;
};

GW_FN struct gw_host_stream_wait_ gw_host_stream_wait_(void)
{
    struct gw_host_stream_wait_ w;

    w.start = 0;
    w.round = w.news = 0;
    return w;
}

/* Before a look: what has happened until now need not be waited for. */
GW_FN void gw_host_stream_before_(const struct gw_host_stream_ *p, struct gw_host_stream_wait_ *w)
{
    if (p->host) w->news = gw_ld_acquire_u32(&p->ends->news); /* acquire: the look comes after */
}

/* Between two looks. 0: look again; else the deadline has passed. */
GW_FN int gw_host_stream_pause_(struct gw_host_stream_ *p, struct gw_host_stream_wait_ *w,
                                uint64_t deadline_ns)
{
    uint64_t now = deadline_ns ? gw_clock_ns() : 0;

    if (now >= deadline_ns) return gw_expired_(deadline_ns);
    if (!w->start) w->start = now;
    if (!p->host || now - w->start < GW_WAIT_SPIN_NS_)
        gw_pause(w->round++);
    else
        gw_cpu_host_stream_sleep_(p->ends, w->news, deadline_ns);
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------------------ */

/* How many bytes can be put now, in a row? 0: none yet; or an error. All is asked for before any of it is
 * looked at: to a GPU it is across the bus. */
GW_FN int64_t gw_host_stream_may_send_(struct gw_host_stream_ *p)
{
    uint32_t at = (uint32_t)p->put & (p->wbuf_size - 1), refused = gw_ld_relaxed_u32(&p->ends->refused),
             closing = gw_ld_relaxed_u32_gpu(&p->sock->closing);
    /* Acquire: the host's socket has read before we overwrite. */
    uint64_t room = p->wbuf_size - (p->put - gw_ld_acquire_u64(&p->ends->sent));

    if (closing) return -EBADF;
    if (p->shut & GW_HOST_STREAM_SHUT_WR_) return -EPIPE;
    if (refused) return -(int)refused;
    return gw_smaller_(gw_smaller_(room, p->wbuf_size - at), GW_HOST_STREAM_CHUNK_);
}

GW_SLOW_FN int64_t gw_host_stream_room_(struct gw_host_stream_ *p, uint64_t deadline_ns)
{
    struct gw_host_stream_wait_ w = gw_host_stream_wait_();
    int64_t may;

    for (;;) {
        gw_host_stream_before_(p, &w);
        may = gw_host_stream_may_send_(p);
        if (may) return may;
        may = gw_host_stream_pause_(p, &w, deadline_ns);
        if (may) return may;
    }
}

/* Sends n bytes that have been put there. */
GW_FN void gw_host_stream_put_(struct gw_host_stream_ *p, uint32_t n)
{
    gw_st_relaxed_u64_gpu(&p->put, p->put + n); /* single: who polls reads it */
    gw_st_release_u64(&p->ends->put, p->put);   /* release: the bytes first */
    gw_host_stream_ring_(p);
}

/* As shutdown(2). Whose turn it is to send. */
GW_FN int gw_host_stream_shutdown_(struct gw_host_stream_ *p, int how)
{
    uint32_t shut = p->shut;

    if (how != SHUT_RD) shut |= GW_HOST_STREAM_SHUT_WR_;
    if (how != SHUT_WR) shut |= GW_HOST_STREAM_SHUT_RD_;
    gw_st_relaxed_u32_gpu(&p->shut, shut);
    gw_st_release_u32(&p->ends->shut, shut); /* release: what was put before goes out before */
    gw_host_stream_ring_(p);
    if (p->host) gw_cpu_host_stream_wake_(p->ends); /* who receives on this side sees the end */
    return 0;
}

/* Waits until the host's socket has everything. A host stream that has failed takes no more. */
GW_FN int gw_host_stream_goodbye_(struct gw_host_stream_ *p, uint64_t deadline_ns)
{
    struct gw_host_stream_wait_ w = gw_host_stream_wait_();
    int late;

    for (;;) {
        gw_host_stream_before_(p, &w);
        if (gw_ld_acquire_u64(&p->ends->sent) == p->put || gw_ld_relaxed_u32(&p->ends->refused)) return 0;
        late = gw_host_stream_pause_(p, &w, deadline_ns);
        if (late) return -ETIMEDOUT;
    }
}

/* ---- receiving ---------------------------------------------------------------------------------------- */

/* It is not so plain: there is nothing after the first `skip` bytes, or there was not a moment ago. */
GW_SLOW_FN int64_t gw_host_stream_may_end_(struct gw_host_stream_ *p, uint64_t skip)
{
    /* Errors and the end are read first and told last: bytes that came before them are received. */
    int err = -(int)gw_ld_acquire_u32(&p->ends->error);
    uint32_t end =
        gw_ld_acquire_u32(&p->ends->ended) || gw_ld_relaxed_u32_gpu(&p->shut) & GW_HOST_STREAM_SHUT_RD_;
    /* Acquire: the count before the bytes. */
    uint64_t have = gw_ld_acquire_u64(&p->ends->arrived) - gw_ld_relaxed_u64_gpu(&p->taken) - skip;

    return have ? (int64_t)have : end ? GW_STREAM_END_ : err;
}

/* How many bytes are there after the first `skip`? 0: none yet. GW_STREAM_END_; or an error. As in
 * gw_host_stream_may_send_ all is asked for at a time. */
GW_FN int64_t gw_host_stream_may_recv_(struct gw_host_stream_ *p, uint64_t skip)
{
    uint32_t error = gw_ld_relaxed_u32(&p->ends->error), ended = gw_ld_relaxed_u32(&p->ends->ended),
             shut = gw_ld_relaxed_u32_gpu(&p->shut) & GW_HOST_STREAM_SHUT_RD_,
             closing = gw_ld_relaxed_u32_gpu(&p->sock->closing);
    uint64_t taken = gw_ld_relaxed_u64_gpu(&p->taken);
    uint64_t have =
        gw_ld_acquire_u64(&p->ends->arrived) - taken - skip; /* acquire: the count before the bytes */

    if (closing) return -EBADF;
    if (have) return (int64_t)have;
    return error || ended || shut ? gw_host_stream_may_end_(p, skip) : 0;
}

/* As above, but waits. A caller that wants more than the ring may hold takes these first. */
GW_SLOW_FN int64_t gw_host_stream_bytes_(struct gw_host_stream_ *p, uint64_t skip, uint64_t deadline_ns)
{
    struct gw_host_stream_wait_ w = gw_host_stream_wait_();
    int64_t may;

    for (;;) {
        gw_host_stream_before_(p, &w);
        may = gw_host_stream_may_recv_(p, skip);
        if (may > 0 && may != GW_STREAM_END_) p->seen = p->taken + skip + (uint64_t)may;
        if (may) return may;
        may = gw_host_stream_pause_(p, &w, deadline_ns);
        if (may) return may;
    }
}

/* n bytes have been read. -EINVAL: there are fewer. */
GW_SLOW_FN int gw_host_stream_take_(struct gw_host_stream_ *p, uint64_t n)
{
    if (n > p->seen - p->taken) p->seen = gw_ld_relaxed_u64(&p->ends->arrived); /* over the bus, on a GPU */
    if (n > p->seen - p->taken) return -EINVAL;
    if (!n) return 0;
    gw_st_relaxed_u64_gpu(&p->taken, p->taken + n); /* single: who polls reads it */
    gw_st_release_u64(&p->ends->taken, p->taken);   /* release: the group's reads come first */
    gw_fence_sc(); /* the room, before the look: the proxy writes full and looks at the room then */
    if (gw_ld_relaxed_u32(&p->ends->full)) gw_host_stream_ring_(p);
    return 0;
}

/* ---- anybody ------------------------------------------------------------------------------------------ */

/* The failure, as an errno; 0: none. */
GW_FN int gw_host_stream_failure_(struct gw_host_stream_ *p)
{
    uint32_t err = gw_ld_relaxed_u32(&p->ends->error) & 0xffff;

    return (int)(err ? err : gw_ld_relaxed_u32(&p->ends->refused) & 0xffff);
}

/* What poll tells. */
GW_FN int gw_host_stream_events_(struct gw_host_stream_ *p)
{
    int events = 0;
    int err = gw_host_stream_failure_(p);
    uint32_t ended = gw_ld_acquire_u32(&p->ends->ended), shut = gw_ld_relaxed_u32_gpu(&p->shut);

    if (gw_host_stream_may_recv_(p, 0))
        events |= POLLIN;                    /* bytes, the end or an error: receiving does not wait */
    if (gw_turn_try_(&p->sock->send_lock)) { /* else a thread sends, and we cannot know */
        if (gw_host_stream_may_send_(p)) events |= POLLOUT;
        gw_turn_leave_(&p->sock->send_lock);
    }
    if ((ended || shut & GW_HOST_STREAM_SHUT_RD_) && shut & GW_HOST_STREAM_SHUT_WR_) events |= POLLHUP;
    return err ? events | POLLERR | POLLHUP : events;
}

/* The same for datagrams: an error is told until a call has told it. */
GW_FN int gw_host_datagram_events_(struct gw_host_stream_ *p)
{
    uint32_t shut = gw_ld_relaxed_u32_gpu(&p->shut);
    int failed = gw_ld_relaxed_u32(&p->ends->error) != gw_ld_relaxed_u32_gpu(&p->reported_in) ||
                 gw_ld_relaxed_u32(&p->ends->refused) != gw_ld_relaxed_u32_gpu(&p->reported_out);
    uint64_t due = gw_ld_relaxed_u64_gpu(&p->put) - gw_ld_acquire_u64(&p->ends->sent);
    int events = failed ? POLLERR : 0;

    if (gw_ld_acquire_u64(&p->ends->arrived) != gw_ld_relaxed_u64_gpu(&p->taken) ||
        shut & GW_HOST_STREAM_SHUT_RD_ || failed)
        events |= POLLIN;
    if (p->wbuf_size - due >= p->wbuf_size / 2) events |= POLLOUT;
    return shut == (GW_HOST_STREAM_SHUT_RD_ | GW_HOST_STREAM_SHUT_WR_) ? events | POLLHUP : events;
}

/* The socket is connected, and its ends are as new. The sizes say how many bytes of its buffers are used. */
GW_FN void gw_host_stream_begin_(struct gw_host_stream_ *p, uint32_t rbuf, uint32_t wbuf)
{
    p->rbuf_size = rbuf;
    p->wbuf_size = wbuf;
    p->put = p->taken = p->seen = 0;
    p->shut = p->reported_out = p->reported_in = 0;
}

#endif
