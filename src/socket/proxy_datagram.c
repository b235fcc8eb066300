/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams between the rings and the host's sockets: one request each way at a time, one record each. */
#include <errno.h>
#include <string.h>

#include "src/socket/proxy.h"

#define STUCK 16 /* errors in a row, with no datagram between them that came or left: the socket has failed */

/* One more error for the kernel, which tells each once. */
static void proxy_datagram_say_error(struct gw_sockets *set, struct sock *k, uint32_t *word, int err)
{
    gw_st_release_u32(word, (((*word >> 16) + 1) << 16 & ~GW_HOST_DATAGRAM_STAYS_) | (uint32_t)-err);
    gw_host_stream_tell(set, k);
}

/* ---- coming in ---------------------------------------------------------------------------------------- */

static struct gw_host_datagram_ *proxy_datagram_record(uint8_t *ring, uint32_t size, uint64_t at)
{
    return (struct gw_host_datagram_ *)(ring + (at & (size - 1)));
}

/* Is there room for the longest datagram, in a row, and for what must be skipped before it? */
static bool proxy_datagram_has_room(struct sock *k, uint32_t need)
{
    for (int again = 0; again < 2; again++) {
        /* Acquire: the kernel has read before the ring is written again. */
        uint64_t room = k->rbuf_size - (k->arrived - gw_ld_acquire_u64(&k->ends->taken));

        if (room <= k->rbuf_size && room >= need) {
            gw_st_relaxed_u32(&k->ends->full, 0);
            return true;
        }
        gw_st_relaxed_u32(&k->ends->full, 1);
        gw_fence_sc(); /* said before the second look, as the kernel takes before it looks at `full` */
    }
    return false;
}

static void proxy_datagram_receive(struct gw_sockets *set, struct sock *k)
{
    uint32_t rest = k->rbuf_size - ((uint32_t)k->arrived & (k->rbuf_size - 1)),
             most = gw_host_datagram_max_(k->rbuf_size), size = gw_host_datagram_size_(most);
    struct gw_host_datagram_ *d;

    if (k->receiving || k->stopped || k->step != SOCK_CONNECTED) return;
    k->skip = size > rest ? rest : 0;
    if (!proxy_datagram_has_room(k, k->skip + size)) return;
    if (k->skip) proxy_datagram_record(k->rbuf, k->rbuf_size, k->arrived)->len = GW_HOST_DATAGRAM_SKIP_;
    d = proxy_datagram_record(k->rbuf, k->rbuf_size, k->arrived + k->skip);
    k->in_iov = (struct iovec){.iov_base = d + 1, .iov_len = most};
    k->in = (struct msghdr){.msg_name = d->addr.bytes,
                            .msg_namelen = sizeof(d->addr.bytes),
                            .msg_iov = &k->in_iov,
                            .msg_iovlen = 1};
    k->receiving = true;
    io_uring_prep_recvmsg(gw_socket_proxy_sqe(set, k, PROXY_RECVMSG), k->fd, &k->in, 0);
}

void gw_host_datagram_received(struct gw_sockets *set, struct sock *k, int result)
{
    struct gw_host_datagram_ *d = proxy_datagram_record(k->rbuf, k->rbuf_size, k->arrived + k->skip);

    k->receiving = false;
    if (k->step != SOCK_CONNECTED || k->stopped) return;
    if (result >= 0) {
        k->stuck = 0;
        d->len = (uint32_t)result;
        d->addr.len = k->in.msg_namelen < sizeof(d->addr.bytes) ? k->in.msg_namelen : sizeof(d->addr.bytes);
        k->arrived += k->skip + gw_host_datagram_size_((uint32_t)result);
        gw_st_release_u64(&k->ends->arrived, k->arrived); /* release: the record first */
        gw_host_stream_tell(set, k);
    } else if (result != -EINTR && result != -EAGAIN) {
        if (++k->stuck == STUCK)
            gw_host_stream_fail(set, k, result);
        else
            proxy_datagram_say_error(set, k, &k->ends->error, result);
    }
    proxy_datagram_receive(set, k);
}

/* ---- going out ---------------------------------------------------------------------------------------- */

static void proxy_datagram_send_next(struct gw_sockets *set, struct sock *k)
{
    uint64_t put = gw_ld_acquire_u64(&k->ends->put); /* acquire: the records first */
    struct gw_host_datagram_ *d = proxy_datagram_record(k->wbuf, k->wbuf_size, k->sent);
    uint32_t rest = k->wbuf_size - ((uint32_t)k->sent & (k->wbuf_size - 1));

    if (k->sending || put == k->sent || k->step != SOCK_CONNECTED) return;
    if (put - k->sent <= k->wbuf_size && d->len == GW_HOST_DATAGRAM_SKIP_) {
        k->sent += rest;
        gw_st_release_u64(&k->ends->sent, k->sent); /* release: what was skipped has been read */
        d = proxy_datagram_record(k->wbuf, k->wbuf_size, k->sent);
    }
    if (put == k->sent) return;
    k->leaving = d->len <= gw_host_datagram_max_(k->wbuf_size) ? gw_host_datagram_size_(d->len) : UINT32_MAX;
    if (put - k->sent > k->wbuf_size || k->leaving > put - k->sent || d->addr.len > sizeof(d->addr.bytes)) {
        gw_host_stream_fail(set, k, -EPROTO); /* no kernel of ours puts that */
        return;
    }
    k->out_iov = (struct iovec){.iov_base = d + 1, .iov_len = d->len};
    k->out = (struct msghdr){.msg_name = d->addr.len ? d->addr.bytes : NULL,
                             .msg_namelen = d->addr.len,
                             .msg_iov = &k->out_iov,
                             .msg_iovlen = 1};
    k->sending = true;
    io_uring_prep_sendmsg(gw_socket_proxy_sqe(set, k, PROXY_SENDMSG), k->fd, &k->out, MSG_NOSIGNAL);
}

void gw_host_datagram_sent(struct gw_sockets *set, struct sock *k, int result)
{
    k->sending = false;
    if (k->step != SOCK_CONNECTED) return;
    if (result != -EINTR && result != -EAGAIN) {
        k->stuck = 0; /* each datagram that leaves may be refused */
        k->sent += k->leaving;
        gw_st_release_u64(&k->ends->sent, k->sent); /* release: the host's socket has read */
        if (!k->bound) gw_socket_proxy_name(k);     /* it has one now */
        k->bound = true;
        gw_host_stream_tell(set, k);
    }
    if (result < 0 && result != -EINTR && result != -EAGAIN)
        proxy_datagram_say_error(set, k, &k->ends->refused, result);
    proxy_datagram_send_next(set, k);
}

/* ---- both --------------------------------------------------------------------------------------------- */

void gw_host_datagram_serve(struct gw_sockets *set, struct sock *k)
{
    uint32_t shut = gw_ld_acquire_u32(&k->ends->shut);

    proxy_datagram_send_next(set, k);
    if (shut & GW_HOST_STREAM_SHUT_RD_) k->stopped = true;
    proxy_datagram_receive(set, k);
}

void gw_host_datagram_start(struct gw_sockets *set, struct sock *k)
{
    gw_host_stream_reset(k);
    k->stuck = 0;
    k->step = SOCK_CONNECTED;
    proxy_datagram_receive(set, k);
}
