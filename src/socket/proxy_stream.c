/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between the rings of a connected socket and the host's own: at most one request each way at a time,
 * straight from or into the ring. The rings are not registered with io_uring: send and recv copy from and to
 * socket buffers, and registration would save nothing.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "src/socket/proxy.h"

/* ---- CPU threads that wait ---------------------------------------------------------------------------- */

void gw_cpu_host_stream_wake_(struct gw_host_stream_ends_ *ends)
{
    gw_news_tell(&ends->news, &ends->sleepers);
}

void gw_cpu_host_stream_sleep_(struct gw_host_stream_ends_ *ends, uint32_t news, uint64_t deadline_ns)
{
    gw_news_wait(&ends->news, &ends->sleepers, news, deadline_ns);
}

void gw_host_stream_tell(struct gw_sockets *set, struct sock *k)
{
    if (set->helper.polled) return; /* kernels on a GPU look by themselves */
    gw_cpu_host_stream_wake_(k->ends);
    set->news_pending = true; /* for those that poll many */
}

/* ---- failing ------------------------------------------------------------------------------------------ */

void gw_host_stream_fail(struct gw_sockets *set, struct sock *k, int err)
{
    uint32_t word = (uint32_t)-err | (k->info->kind == GW_SOCK_HOST_DATAGRAM_ ? GW_HOST_DATAGRAM_STAYS_ : 0);

    k->stopped = true;
    gw_st_release_u32(&k->ends->refused, word);
    gw_st_release_u32(&k->ends->error, word); /* release: the bytes that came before are counted */
    gw_host_stream_tell(set, k);
}

/* ---- coming in ---------------------------------------------------------------------------------------- */

static uint64_t room_of(struct sock *k)
{
    /* Acquire: the kernel has read before the host's socket writes there again. */
    return k->rbuf_size - (k->arrived - gw_ld_acquire_u64(&k->ends->taken));
}

/* Is there enough room to go on? If not, the kernel rings when it has read. */
static bool proxy_stream_has_room(struct sock *k, uint64_t *room)
{
    uint32_t enough = k->rbuf_size / 8;

    *room = room_of(k);
    if (*room < enough) {
        gw_st_relaxed_u32(&k->ends->full, 1);
        gw_fence_sc(); /* said before the look, as there the room before the look at `full` */
        *room = room_of(k);
    }
    if (*room < enough) return false;
    gw_st_relaxed_u32(&k->ends->full, 0);
    return true;
}

static void proxy_stream_receive(struct gw_sockets *set, struct sock *k)
{
    uint32_t at = (uint32_t)k->arrived & (k->rbuf_size - 1);
    struct io_uring_sqe *sqe;
    uint64_t room;

    if (k->receiving || k->stopped || k->step != SOCK_CONNECTED || !proxy_stream_has_room(k, &room)) return;
    if (room > k->rbuf_size) {
        gw_host_stream_fail(set, k, -EPROTO); /* a kernel took what was not there */
        return;
    }
    k->receiving = true;
    sqe = gw_socket_proxy_sqe(set, k, PROXY_RECV);
    io_uring_prep_recv(sqe, k->fd, k->rbuf + at, gw_smaller_(room, k->rbuf_size - at), 0);
    /* Unless more was there than fitted, it is not tried first: nothing has come yet, most likely. */
    if (!k->more) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
}

/* The end of what comes in. Sent bytes may fail later, and that would not be noticed without a send. */
static void proxy_stream_end(struct gw_sockets *set, struct sock *k)
{
    int err = (int)gw_ld_relaxed_u32(&k->ends->refused);

    k->stopped = true;
    if (err && err != EPIPE) {
        gw_host_stream_fail(set, k, -err); /* a send was told of the reset, in place of this receive */
        return;
    }
    gw_st_release_u32(&k->ends->ended, 1); /* release: the bytes that came before are counted */
    gw_host_stream_tell(set, k);
    /* For POLLERR and POLLHUP; it tells of POLLRDHUP, too, once and again, and there is no way not to ask for
     * that. */
    io_uring_prep_poll_multishot(gw_socket_proxy_sqe(set, k, PROXY_WATCH), k->fd, 0);
}

void gw_host_stream_received(struct gw_sockets *set, struct sock *k, int result, bool more)
{
    GW_ASSERT(k->receiving);
    k->receiving = false;
    if (k->step != SOCK_CONNECTED) return;
    if (result == 0) {
        proxy_stream_end(set, k);
        return;
    }
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        gw_host_stream_fail(set, k, result);
        return;
    }
    k->more = more;
    if (result > 0) {
        k->arrived += (uint32_t)result;
        gw_st_release_u64(&k->ends->arrived, k->arrived); /* release: the bytes first */
        gw_host_stream_tell(set, k);
    }
    proxy_stream_receive(set, k);
}

void gw_host_stream_watched(struct gw_sockets *set, struct sock *k, int result)
{
    socklen_t len = sizeof(int);
    int err = 0;

    if (k->step != SOCK_CONNECTED || result < 0) return;
    if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &err, &len) || !err) return;
    gw_st_release_u32(&k->ends->refused, (uint32_t)err);
    gw_host_stream_tell(set, k);
}

/* ---- going out ---------------------------------------------------------------------------------------- */

static void send_more(struct gw_sockets *set, struct sock *k)
{
    uint32_t shut = gw_ld_acquire_u32(&k->ends->shut); /* acquire: what was put before is seen below */
    uint64_t due = gw_ld_acquire_u64(&k->ends->put) - k->sent;
    uint32_t at = (uint32_t)k->sent & (k->wbuf_size - 1), row = gw_smaller_(due, k->wbuf_size - at);

    if (due > k->wbuf_size) {
        gw_host_stream_fail(set, k, -EPROTO); /* a kernel put more than there is room for */
        return;
    }
    if (due && gw_ld_relaxed_u32(&k->ends->refused)) return;
    if (due) {
        k->sending = true;
        io_uring_prep_send(gw_socket_proxy_sqe(set, k, PROXY_SEND), k->fd, k->wbuf + at, row,
                           MSG_NOSIGNAL | (row < due ? MSG_MORE : 0));
    } else if (shut & ~k->shut & GW_HOST_STREAM_SHUT_WR_) {
        k->shut |= GW_HOST_STREAM_SHUT_WR_;
        shutdown(k->fd, SHUT_WR);
    }
}

void gw_host_stream_sent(struct gw_sockets *set, struct sock *k, int result)
{
    GW_ASSERT(k->sending);
    k->sending = false;
    if (k->step != SOCK_CONNECTED) return;
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        gw_st_release_u32(&k->ends->refused, (uint32_t)-result);
        gw_host_stream_tell(set, k);
        return;
    }
    if (result > 0) {
        GW_ASSERT((uint32_t)result <= k->wbuf_size);
        k->sent += (uint32_t)result;
        gw_st_release_u64(&k->ends->sent, k->sent); /* release: the host's socket has read */
        gw_host_stream_tell(set, k);
    }
    send_more(set, k);
}

/* ---- both --------------------------------------------------------------------------------------------- */

void gw_host_stream_serve(struct gw_sockets *set, struct sock *k)
{
    if (k->step != SOCK_CONNECTED || k->fd < 0) return;
    if (k->info->kind == GW_SOCK_HOST_DATAGRAM_) {
        gw_host_datagram_serve(set, k);
        return;
    }
    if (!k->sending) send_more(set, k);
    if (gw_ld_relaxed_u32(&k->ends->shut) & ~k->shut & GW_HOST_STREAM_SHUT_RD_) {
        k->shut |= GW_HOST_STREAM_SHUT_RD_;
        shutdown(k->fd, SHUT_RD); /* ends the receive that is under way */
    }
    proxy_stream_receive(set, k);
}

void gw_host_stream_reset(struct sock *k)
{
    struct gw_host_stream_ends_ *e = k->ends;

    e->arrived = e->sent = e->put = e->taken = 0;
    e->ended = e->error = e->refused = e->full = e->shut = 0;
    k->rbuf_size = k->info->opt[GW_SOCK_OPT_RBUF_];
    k->wbuf_size = k->info->opt[GW_SOCK_OPT_WBUF_];
    k->arrived = k->sent = 0;
    k->shut = 0;
    k->receiving = k->sending = k->stopped = false;
    k->more = true;
}

void gw_host_stream_start(struct gw_sockets *set, struct sock *k)
{
    gw_host_stream_reset(k);
    k->step = SOCK_CONNECTED;
    proxy_stream_receive(set, k);
}
