/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the host's own: how they are opened, bound, connected, accepted and closed. Nothing here waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "src/socket/proxy.h"

/* ---- addresses ---------------------------------------------------------------------------------------- */

static void proxy_sock_keep(struct gw_sock_addr_ *to, const struct sockaddr_storage *sa, socklen_t len)
{
    to->len = len < sizeof(to->bytes) ? len : sizeof(to->bytes);
    memcpy(to->bytes, sa, to->len);
}

static void proxy_sock_keep_name(struct gw_sock_addr_ *to, int fd,
                                 int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(sa);

    if (name(fd, (struct sockaddr *)&sa, &len)) len = 0;
    proxy_sock_keep(to, &sa, len);
}

static int local_name(int fd, struct sockaddr *sa, socklen_t *len)
{
    return getsockname(fd, sa, len);
}

static int peer_name(int fd, struct sockaddr *sa, socklen_t *len)
{
    return getpeername(fd, sa, len);
}

/* ---- opening ------------------------------------------------------------------------------------------ */

void gw_socket_proxy_name(struct sock *k)
{
    proxy_sock_keep_name(&k->info->local, k->fd, local_name);
}

int gw_socket_proxy_open(struct gw_sockets *set, struct sock *k, int domain, int type)
{
    int err = gw_socket_proxy_error(set);

    if (err) return err;
    k->fd = socket(domain, type | SOCK_CLOEXEC, 0);
    if (k->fd < 0) return -errno;
    gw_socket_proxy_name(k);
    return 0;
}

int gw_socket_proxy_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    (void)set;
    if (addr->len > sizeof(addr->bytes)) return -EINVAL;
    if (bind(k->fd, (const struct sockaddr *)addr->bytes, addr->len)) return -errno;
    k->bound = true;
    proxy_sock_keep_name(&k->info->local, k->fd, local_name);
    return 0;
}

/* ---- listening ---------------------------------------------------------------------------------------- */

static bool proxy_sock_somebody_waits(const struct sock *l)
{
    struct pollfd f = {.fd = l->fd, .events = POLLIN};

    return poll(&f, 1, 0) == 1;
}

/* While some wait we do not watch for more: those that come in that time cost nothing. */
static void watch_listener(struct gw_sockets *set, struct sock *l)
{
    if (l->watched || l->ready_host) return;
    l->watched = true;
    io_uring_prep_poll_add(gw_socket_proxy_sqe(set, l, PROXY_LISTEN), l->fd, POLLIN);
}

static void say_ready(struct gw_sockets *set, struct sock *l)
{
    l->ready_host = proxy_sock_somebody_waits(l);
    watch_listener(set, l);
    gw_sock_say_ready(set, l);
}

void gw_socket_proxy_listening(struct gw_sockets *set, struct sock *l, int result)
{
    l->watched = false;
    if (l->step != SOCK_LISTENING || result < 0) return;
    l->ready_host = 1; /* a peer that has gone again is not there to accept, which says so */
    gw_sock_say_ready(set, l);
}

int gw_socket_proxy_listen(struct gw_sockets *set, struct sock *k, int backlog)
{
    if (listen(k->fd, backlog)) return -errno;
    if (k->step == SOCK_LISTENING) return 0;
    /* Accepting never waits, even when the client is gone again. */
    if (fcntl(k->fd, F_SETFL, O_NONBLOCK)) return -errno;
    proxy_sock_keep_name(&k->info->local, k->fd, local_name);
    k->step = SOCK_LISTENING;
    watch_listener(set, k);
    gw_sock_publish(set, k, GW_SOCK_LISTENING_);
    return 0;
}

/* ---- connected ---------------------------------------------------------------------------------------- */

/* Its addresses are known. */
static void proxy_sock_connected(struct gw_sockets *set, struct sock *k)
{
    k->info->kind = GW_SOCK_HOST_STREAM_;
    gw_host_stream_start(set, k);
    gw_sock_publish(set, k, GW_SOCK_CONNECTED_);
}

/* Is that one address, which those that are accepted there have, too? */
static bool is_one(const struct gw_sock_addr_ *a)
{
    struct sockaddr_in in;
    struct sockaddr sa;

    memcpy(&sa, a->bytes, sizeof(sa));
    memcpy(&in, a->bytes, sizeof(in));
    return sa.sa_family == AF_UNIX || (sa.sa_family == AF_INET && in.sin_addr.s_addr != INADDR_ANY);
}

int gw_socket_proxy_accept(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(sa);
    struct sock *k;
    int fd;

    if (!gw_sock_find_free(set)) {
        say_ready(set, l);
        return l->ready_host ? -EMFILE : -EAGAIN; /* who waits goes on waiting */
    }
    fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC);
    if (fd < 0) {
        int err = -errno;

        say_ready(set, l);
        return err;
    }
    k = gw_sock_take_free(set);
    k->fd = fd;
    gw_sock_inherit(k, l);
    proxy_sock_keep(&k->info->remote, &sa, len);
    if (is_one(&l->info->local))
        k->info->local = l->info->local;
    else
        proxy_sock_keep_name(&k->info->local, k->fd, local_name);
    proxy_sock_connected(set, k);
    say_ready(set, l);
    *peer = k->info->remote;
    return (int)(k - set->sock);
}

/* At once: it only says where datagrams go, and where they come from. */
static int connect_dgram(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    if (connect(k->fd, (const struct sockaddr *)addr->bytes, addr->len)) return -errno;
    proxy_sock_keep_name(&k->info->local, k->fd, local_name);
    proxy_sock_keep_name(&k->info->remote, k->fd, peer_name);
    gw_sock_publish(set, k, GW_SOCK_CONNECTED_);
    return 0;
}

int gw_socket_proxy_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    const struct sockaddr *sa = (const struct sockaddr *)addr->bytes;
    int err = gw_socket_proxy_error(set);

    if (err) return err;
    if (addr->len < sizeof(sa->sa_family) || addr->len > sizeof(addr->bytes)) return -EINVAL;
    if (sa->sa_family != k->info->opt[GW_SOCK_OPT_DOMAIN_])
        return k->info->opt[GW_SOCK_OPT_DOMAIN_] == AF_UNIX ? -EINVAL : -EAFNOSUPPORT;
    if (k->info->kind == GW_SOCK_HOST_DATAGRAM_) return connect_dgram(set, k, addr);
    k->info->remote = *addr; /* until it is connected that is not read: it lies there for the request */
    k->step = SOCK_ASKED;
    io_uring_prep_connect(gw_socket_proxy_sqe(set, k, PROXY_CONNECT), k->fd,
                          (const struct sockaddr *)k->info->remote.bytes, addr->len);
    gw_sock_publish(set, k, GW_SOCK_CONNECTING_);
    return 0;
}

void gw_socket_proxy_connected(struct gw_sockets *set, struct sock *k, int result)
{
    if (k->step != SOCK_ASKED) return;
    if (!result) {
        proxy_sock_keep_name(&k->info->local, k->fd, local_name);
        proxy_sock_keep_name(&k->info->remote, k->fd, peer_name);
        proxy_sock_connected(set, k);
        return;
    }
    k->step = SOCK_FAILED;
    k->info->error = result;
    gw_sock_publish(set, k, GW_SOCK_FAILED_);
}

/* ---- closing ------------------------------------------------------------------------------------------ */

bool gw_socket_proxy_close(struct gw_sockets *set, struct sock *k)
{
    /* As Linux does it: unread bytes make the goodbye a reset, as lingering for no time does.
     */
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    struct io_uring_sqe *sqe;

    if (k->step == SOCK_CONNECTED &&
        (k->info->opt[GW_SOCK_OPT_LINGER_] == 1 || k->arrived != gw_ld_acquire_u64(&k->ends->taken)))
        setsockopt(k->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    k->step = SOCK_CLOSING;
    if (!k->requests) return false;
    sqe = gw_socket_proxy_sqe(set, k, PROXY_CANCEL);
    io_uring_prep_cancel_fd(sqe, k->fd, IORING_ASYNC_CANCEL_ALL);
    return k->requests != 0;
}
