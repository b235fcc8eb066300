/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where peers of datagram sockets are: notes by UDP (gpuwire/rsocket_datagram.h), and what kernels ask. A
 * note may come from anybody: what is not one is dropped and counted, and each table is as large as it is,
 * however many peers there are.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/socket/datagram.h"

#define AT_A_TIME 32 /* datagrams of one socket, and sockets: others wait, too */

static void datagram_udp_drop(struct datagram_end *e)
{
    gw_st_relaxed_u32(&e->shared->dropped, e->shared->dropped + 1);
}

/* ---- where peers are ---------------------------------------------------------------------------------- */

/* The peer's place, a free one, or that of a peer that has been there for long. */
static struct gw_datagram_peer_ *datagram_udp_place_of(struct datagram_end *e,
                                                       const struct gw_datagram_addr *a)
{
    uint32_t at = gw_datagram_hash_(a);
    struct gw_datagram_peer_ *left = NULL;

    for (uint32_t i = 0; i < GW_DATAGRAM_PEERS_; i++) {
        struct gw_datagram_peer_ *p = &e->shared->peer[(at + i) % GW_DATAGRAM_PEERS_];

        if (p->seq && gw_datagram_same(&p->addr, a)) return p;
        if (!left && !p->addr.w[0]) left = p; /* never given, or its peer was forgotten */
        if (!p->seq) return left;
    }
    return left ? left : &e->shared->peer[e->victim++ % GW_DATAGRAM_PEERS_];
}

/* Says where a peer is, while kernels look. */
static void datagram_udp_publish(struct datagram_end *e, const struct gw_datagram_addr *a, uint32_t qpn,
                                 const struct gw_ah_handle *way)
{
    struct gw_datagram_peer_ *p = datagram_udp_place_of(e, a);
    uint64_t seq = p->seq, ah[sizeof(*way) / 8];

    memcpy(ah, way, sizeof(ah));
    if (seq && gw_datagram_same(&p->addr, a) && p->qpn == qpn) return;
    gw_st_relaxed_u64(&p->seq, seq + 1);
    gw_fence_release(); /* odd, before anything of it changes */
    for (uint32_t i = 0; i < 3; i++) gw_st_relaxed_u64(&p->addr.w[i], a->w[i]);
    gw_st_relaxed_u64(&p->qpn, qpn);
    for (uint32_t i = 0; i < sizeof(ah) / 8; i++) gw_st_relaxed_u64(&p->ah[i], ah[i]);
    gw_st_release_u64(&p->seq, seq + 2); /* release: all of it */
}

/* ---- UDP ---------------------------------------------------------------------------------------------- */

/* A note from k's socket, and n bytes after it. */
static int send_note(const struct sock *k, const struct sockaddr_storage *to, uint32_t len,
                     const uint8_t *payload, uint32_t n, bool data)
{
    struct gw_datagram_note note = {.qpn = gw_qp_num(k->datagram->qp), .data = data};
    uint8_t bytes[GW_DATAGRAM_NOTE_MAX];
    struct gw_datagram_addr self;
    struct iovec iov[2] = {{.iov_base = bytes}, {.iov_base = (void *)(uintptr_t)payload, .iov_len = n}};
    struct msghdr msg = {
        .msg_name = (void *)(uintptr_t)to, .msg_namelen = len, .msg_iov = iov, .msg_iovlen = 2};

    (void)gw_datagram_addr_of(k->info->local.bytes, k->info->local.len, &self);
    iov[0].iov_len = gw_datagram_note_put(&self, &note, bytes);
    return sendmsg(k->datagram->fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Bytes that came: a note, and perhaps a payload. A sender of data hears where we are, so that the next goes
 * by RDMA. */
static bool datagram_udp_take(struct gw_sockets *set, struct datagram_end *e, const uint8_t *bytes,
                              uint32_t n, const struct sockaddr_storage *sa, socklen_t len)
{
    const struct gw_ah_handle *way;
    struct gw_datagram_note note;
    struct gw_datagram_addr from;
    int head;

    if (gw_datagram_addr_of(sa, len, &from)) return false;
    head = gw_datagram_note_get(bytes, n, from.w[0] & 0xff, &note);
    if (head < 0 || n - (uint32_t)head > set->datagrams->most - gw_datagram_head_bytes(&from)) return false;
    if (note.data) (void)send_note(e->owner, sa, len, NULL, 0, false);
    way = gw_datagram_way_to(set, &from);
    if (way) datagram_udp_publish(e, &from, note.qpn, way);
    return !note.data || gw_datagram_deliver(set, e, &from, bytes + head, n - (uint32_t)head);
}

static void take_in(struct gw_sockets *set, struct datagram_end *e)
{
    uint8_t bytes[GW_DATAGRAM_NOTE_MAX + GW_DATAGRAM_MESSAGE];
    struct sockaddr_storage from;
    socklen_t len;

    for (int i = 0; i < AT_A_TIME; i++) {
        ssize_t n;

        len = sizeof(from);
        n = recvfrom(e->fd, bytes, sizeof(bytes), MSG_TRUNC, (struct sockaddr *)&from, &len);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n < 0) continue; /* an error of something that was sent, told once */
        if (n > (ssize_t)sizeof(bytes) || !datagram_udp_take(set, e, bytes, (uint32_t)n, &from, len))
            datagram_udp_drop(e);
    }
}

bool gw_datagram_udp(struct gw_sockets *set)
{
    struct epoll_event ev[AT_A_TIME];
    int n = epoll_wait(set->datagrams->epoll, ev, AT_A_TIME, 0);

    for (int i = 0; i < n; i++) take_in(set, ev[i].data.ptr);
    return n > 0;
}

/* ---- what kernels ask --------------------------------------------------------------------------------- */

/* The socket's address is the device's, so that UDP packets say where to answer by RDMA. */
static int datagram_udp_bind_to(struct gw_sockets *set, struct sock *k, uint16_t port_be)
{
    struct gw_datagram_addr a = set->datagrams->self;
    struct sockaddr_storage sa;
    socklen_t len;

    a.w[0] |= (uint64_t)port_be << 16;
    len = gw_datagram_addr_tell(&a, &sa);
    if (bind(k->datagram->fd, (struct sockaddr *)&sa, len)) return -errno;
    if (getsockname(k->datagram->fd, (struct sockaddr *)&sa, &len)) return -errno;
    memcpy(k->info->local.bytes, &sa, len);
    k->info->local.len = len;
    k->bound = true;
    return 0;
}

static int bind_asked(struct gw_sockets *set, struct sock *k, const struct gw_datagram_addr *a)
{
    if (k->bound) return -EINVAL;
    if ((a->w[1] | a->w[2]) && (a->w[1] != set->datagrams->self.w[1] || a->w[2] != set->datagrams->self.w[2]))
        return -EADDRNOTAVAIL;
    return datagram_udp_bind_to(set, k, (uint16_t)(a->w[0] >> 16));
}

static int connect_asked(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    int err = k->bound ? 0 : datagram_udp_bind_to(set, k, 0);

    if (err) return err;
    k->info->remote = *addr;
    gw_sock_publish(set, k, GW_SOCK_CONNECTED_);
    return 0;
}

/* The first to a peer, whose queue pair is not known. */
static int send_asked(struct gw_sockets *set, struct sock *k, const struct gw_datagram_addr *to, int n)
{
    struct sockaddr_storage sa;
    uint32_t len = gw_datagram_addr_tell(to, &sa);
    int err = k->bound ? 0 : datagram_udp_bind_to(set, k, 0);

    if (n < 0 || (uint32_t)n > set->datagrams->most - gw_datagram_head_bytes(to)) return -EMSGSIZE;
    return err ? err : send_note(k, &sa, len, k->datagram->shared->out, (uint32_t)n, true);
}

int gw_datagram_answer(struct gw_sockets *set, struct sock *k, const struct gw_sock_ask_ *ask)
{
    struct gw_datagram_addr a;
    int err;

    if (ask->op == GW_SOCK_LISTEN_ || ask->op == GW_SOCK_ACCEPT_) return -EOPNOTSUPP;
    if (set->datagrams->removed) return -ENETDOWN;
    err = ask->addr.len <= sizeof(ask->addr.bytes) ? gw_datagram_addr_of(ask->addr.bytes, ask->addr.len, &a)
                                                   : -EINVAL;
    if (!err && (a.w[0] & 0xff) != (set->datagrams->self.w[0] & 0xff)) err = -EAFNOSUPPORT;
    if (err) return err;
    switch (ask->op) {
    case GW_SOCK_BIND_: return bind_asked(set, k, &a);
    case GW_SOCK_CONNECT_: return connect_asked(set, k, &ask->addr);
    case GW_SOCK_SEND_DATAGRAM_: return send_asked(set, k, &a, ask->number);
    default: return -EINVAL;
    }
}
