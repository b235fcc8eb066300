/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the Internet that use RDMA where both sides can, and the host's TCP else (GW_RDMA_TRY). A socket
 * has both, a descriptor and an id of rdma_cm's, until it is connected: it listens at one port of both, and
 * connects by RDMA first.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "src/socket/proxy.h"

#define PATIENCE_S 2 /* for RDMA to connect: a peer that has none may not even refuse */
#define PORTS      16

static uint16_t port_of(const struct gw_sock_addr_ *addr)
{
    struct sockaddr_in in; /* the port of IPv6 lies where IPv4's does */

    memcpy(&in, addr->bytes, sizeof(in));
    return in.sin_port;
}

/* One port, free in both spaces. Where there is no RDMA at that address there is TCP alone. */
int gw_try_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    int err = -EADDRINUSE;

    for (uint32_t i = 0; i < PORTS && err == -EADDRINUSE; i++) {
        err = gw_sock_cm_bind(set, k, addr);
        if (err == -EADDRINUSE || err == -EINVAL || err == -EAFNOSUPPORT) return err;
        if (err) {
            gw_sock_cm_close(k);
            return gw_socket_proxy_bind(set, k, addr);
        }
        k->bound = false;
        err = gw_socket_proxy_bind(set, k, &k->info->local);
        if (!err) return 0;
        gw_sock_cm_close(k);
        if (port_of(addr)) return err;
    }
    return err;
}

int gw_try_listen(struct gw_sockets *set, struct sock *k, int backlog)
{
    struct gw_sock_addr_ any = gw_sock_any(k->info->opt[GW_SOCK_OPT_DOMAIN_]);
    int err = 0;

    if (!k->bound) err = gw_try_bind(set, k, &any);
    if (!err) err = gw_sock_cm_listen_too(k, backlog);
    return err ? err : gw_socket_proxy_listen(set, k, backlog);
}

int gw_try_accept(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer)
{
    int s = gw_sock_take_ready(set, l, peer);

    return s == -EAGAIN ? gw_socket_proxy_accept(set, l, peer) : s;
}

int gw_try_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    static struct __kernel_timespec patience = {.tv_sec = PATIENCE_S};

    if (gw_sock_cm_connect(set, k, addr)) {
        gw_sock_cm_close(k);
        return gw_socket_proxy_connect(set, k, addr);
    }
    k->to = *addr;
    k->attempt++;
    io_uring_prep_timeout(gw_socket_proxy_sqe(set, k, PROXY_TRY), &patience, 0, 0);
    return 0;
}

bool gw_try_fall_back(struct gw_sockets *set, struct sock *k)
{
    return k->fd >= 0 && !gw_socket_proxy_connect(set, k, &k->to);
}

void gw_try_late(struct gw_sockets *set, struct sock *k, uint32_t attempt)
{
    if (k->fd >= 0 && k->id && k->attempt == attempt && k->info->state == GW_SOCK_CONNECTING_)
        gw_sock_cm_fail(set, k, -ETIMEDOUT);
}

void gw_try_settle(struct sock *k)
{
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
}
