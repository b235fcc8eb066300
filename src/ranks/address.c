/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the rendezvous: parse, listen, connect, and this host's own. */
#include "src/ranks/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/ranks/wire.h"

#define DIAL_NS UINT64_C(1000000000)

int gw_ranks_split(const char *what, const char *text, char host[GW_RANKS_HOSTS], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    unsigned long p = colon ? strtoul(colon + 1, &end, 10) : 0;

    if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (!n || n >= GW_RANKS_HOSTS || !p || p > 65535 || *end || strcspn(text, " \t\n") < n)
        return gw_error(-EINVAL, "%s is not HOST:PORT", what);
    memcpy(host, text, n);
    host[n] = 0;
    *port = (uint16_t)p;
    return 0;
}

/* Resolves one host. An address is taken as it is; a name may need a server. */
static int host_find(const char *host, uint16_t port, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char number[8];

    snprintf(number, sizeof(number), "%u", port);
    return getaddrinfo(host, number, &hints, out) ? -ENOENT : 0;
}

static bool host_is_name(const char *host)
{
    uint8_t address[16];

    return strcmp(host, "localhost") && inet_pton(AF_INET, host, address) != 1 &&
           inet_pton(AF_INET6, host, address) != 1;
}

static int listen_at(const struct sockaddr *address, socklen_t length, uint16_t *bound)
{
    int on = 1, off = 0, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;
    struct sockaddr_in6 mine;
    socklen_t n = sizeof(mine);

    if (fd < 0) return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (!bind(fd, address, length) && !listen(fd, 1024) && !getsockname(fd, (struct sockaddr *)&mine, &n)) {
        *bound = ntohs(mine.sin6_port); /* it stands at the same place in both kinds of address */
        return fd;
    }
    err = -errno;
    close(fd);
    return err;
}

int gw_ranks_listen(const char *host, uint16_t port, uint16_t *bound)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct addrinfo *at = NULL;
    int fd;

    if (host && !host_is_name(host)) {
        if (host_find(host, port, 0, &at)) return gw_error(-ENOENT, "rendezvous: no host %s", host);
        fd = listen_at(at->ai_addr, at->ai_addrlen, bound);
        freeaddrinfo(at);
    } else {
        fd = listen_at((struct sockaddr *)&any6, sizeof(any6), bound);
        if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) /* a kernel without IPv6 */
            fd = listen_at((struct sockaddr *)&any4, sizeof(any4), bound);
    }
    return fd < 0 ? gw_error_errno(fd, "rendezvous: rank 0 cannot listen at %s port %u",
                                   host ? host : "any address", port)
                  : fd;
}

static int dial_one(const struct addrinfo *to, uint64_t deadline_ns)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t n = sizeof(err);

    if (fd < 0) return -errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen)) {
        err = errno;
        if (err == EINPROGRESS) {
            err = ETIMEDOUT;
            if (poll(&p, 1, gw_ranks_poll_ms(deadline_ns)) > 0)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n);
        }
    }
    if (!err) return fd;
    close(fd);
    return -err;
}

int gw_ranks_dial(const char *hosts, uint16_t port, uint64_t deadline_ns)
{
    char list[GW_RANKS_HOSTS], *rest = list, *host;
    int fd = -ENOENT;

    snprintf(list, sizeof(list), "%s", hosts);
    while ((host = strsep(&rest, " ")) && fd < 0) {
        struct addrinfo *all = NULL;

        if (host_find(host, port, 0, &all)) continue;
        for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
            uint64_t soon = gw_ranks_now() + DIAL_NS;

            fd = dial_one(a, soon < deadline_ns ? soon : deadline_ns);
        }
        freeaddrinfo(all);
    }
    return fd;
}

static bool own_counts(const struct ifaddrs *a)
{
    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || a->ifa_flags & IFF_LOOPBACK) return false;
    if (a->ifa_addr->sa_family == AF_INET) return true;
    return a->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr);
}

void gw_ranks_own(char hosts[GW_RANKS_HOSTS])
{
    struct ifaddrs *all = NULL;
    size_t used = 0;

    hosts[0] = 0;
    if (!getifaddrs(&all)) {
        for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
            char text[INET6_ADDRSTRLEN];

            if (!own_counts(a) || used + sizeof(text) + 2 > GW_RANKS_HOSTS) continue;
            if (getnameinfo(a->ifa_addr,
                            a->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                              : sizeof(struct sockaddr_in6),
                            text, sizeof(text), NULL, 0, NI_NUMERICHOST))
                continue;
            used += (size_t)snprintf(hosts + used, GW_RANKS_HOSTS - used, "%s%s", used ? " " : "", text);
        }
        freeifaddrs(all);
    }
    if (!used) strcpy(hosts, "127.0.0.1");
}

uint64_t gw_ranks_host(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct utsname name;
    char id[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f) {
        if (!fgets(id, sizeof(id), f)) id[0] = 0;
        fclose(f);
    }
    uname(&name);
    for (const char *p = id; *p; p++) hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    for (const char *p = name.nodename; *p; p++) hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    return hash;
}

void gw_ranks_tune(int fd)
{
    int on = 1, idle = 10, interval = 5, count = 4;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}
