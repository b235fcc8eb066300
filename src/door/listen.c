/* SPDX-License-Identifier: Apache-2.0 */
/* Listens on TCP, and divides the process's descriptors among doors. */
#include "src/door/listen.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>

#define RESERVE 128u /* descriptors that the rest of the process may need */

void gw_listen_watch(int fd)
{
    int on = 1, idle = 10, interval = 5, count = 4;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int gw_listen_tcp(const char *what, const char *option, const char *host, uint16_t port, uint16_t *bound)
{
    struct sockaddr_in6 any6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = (struct sockaddr *)&any4;
    socklen_t length = sizeof(any4);
    if (host && inet_pton(AF_INET, host, &any4.sin_addr) != 1) {
        if (inet_pton(AF_INET6, host, &any6.sin6_addr) != 1)
            return gw_error(-EINVAL, "%s address %s: not a numeric IPv4 or IPv6 address", what, host);
        address = (struct sockaddr *)&any6;
        length = sizeof(any6);
    }
    const char *shown = host ? host : "127.0.0.1";
    int on = 1, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return gw_error(-errno, "%s socket: %s", what, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address, length) || listen(fd, 1024)) {
        int err = errno;
        close(fd);
        return gw_error(-err, "%s address %s port %u: %s%s%s", what, shown, port, strerror(err),
                        err == EADDRINUSE ? "; choose another with "
                        : err == EACCES   ? "; ports below 1024 need privilege"
                                          : "",
                        err == EADDRINUSE ? option : "");
    }
    if (getsockname(fd, address, &length)) {
        close(fd);
        return -errno;
    }
    *bound = ntohs(address->sa_family == AF_INET6 ? any6.sin6_port : any4.sin_port);
    return fd;
}

static uint32_t descriptors_in_use(void)
{
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return RESERVE;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

uint32_t gw_listen_places(uint32_t each)
{
    struct rlimit limit = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t most = (uint64_t)each * GW_LISTEN_MAX;
    uint64_t may = limit.rlim_cur > 8 * most ? 8 * most : limit.rlim_cur; /* RLIM_INFINITY is huge */
    uint64_t keep = descriptors_in_use() + (may / 4 > RESERVE ? may / 4 : RESERVE);
    if (may < keep + 8 * (uint64_t)each) return 8;
    return may - keep < most ? (uint32_t)((may - keep) / each) : GW_LISTEN_MAX;
}
