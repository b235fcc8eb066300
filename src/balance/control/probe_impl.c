/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of checks, and what a probe tries. */
#include "src/balance/control/probe_impl.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct gw_bal_ask *gw_bal_probe_ask(const struct gw_bal_probe *p)
{
    return gw_bal_ask_of(&p->check, p->at);
}

int gw_bal_probe_fails(const char *what, int err, char *why, size_t size)
{
    snprintf(why, size, "%s: %s", what, strerror(err));
    return -1;
}

static socklen_t probe_fill_address(const struct gw_bal_addr *a, uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (a->family == 6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        memcpy(&six->sin6_addr, a->bytes, 16);
        return sizeof(*six);
    }
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    memcpy(&four->sin_addr, a->bytes, 4);
    return sizeof(*four);
}

int gw_bal_probe_connect(struct gw_bal_probe *p, int type, char *why, size_t size)
{
    struct sockaddr_storage to, from;
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    uint16_t port = a->port ? a->port : p->port;
    if (!port) {
        snprintf(why, size, "the service has all ports: give connect_port");
        return -1;
    }
    socklen_t length = probe_fill_address(a->connect.family ? &a->connect : &p->addr, port, &to);
    p->fd = socket(to.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0) {
        snprintf(why, size, "no socket for the check: too many files are open");
        return -1;
    }
    if (a->bind.family && bind(p->fd, (struct sockaddr *)&from, probe_fill_address(&a->bind, 0, &from)))
        return gw_bal_probe_fails("bindto", errno, why, size);
    if (connect(p->fd, (struct sockaddr *)&to, length) && errno != EINPROGRESS)
        return gw_bal_probe_fails("connect", errno, why, size);
    return 0;
}

int gw_bal_probe_connected(struct gw_bal_probe *p, char *why, size_t size)
{
    struct pollfd now = {.fd = p->fd, .events = POLLOUT};
    int err = 0;
    socklen_t length = sizeof(err);
    if (p->connected) return 1;
    if (poll(&now, 1, 0) < 1) return 0;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &err, &length)) err = errno;
    if (err) return gw_bal_probe_fails("connect", err, why, size);
    p->connected = 1;
    return 1;
}
