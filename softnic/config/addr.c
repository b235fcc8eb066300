/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, as GIDs and as socket addresses; the interfaces that have them. */
#include "softnic/config/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

void sn_gid_from_ipv4(uint8_t gid[16], uint32_t ip)
{
    uint32_t be = htonl(ip);

    memcpy(gid, v4_prefix, sizeof(v4_prefix));
    memcpy(gid + 12, &be, 4);
}

static bool usable_ipv4(const uint8_t ip[4])
{
    return ip[0] != 0 && ip[0] < 224; /* neither "this network" nor multicast, reserved or broadcast */
}

static bool link_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static int config_addr_check(const struct sn_addr *addr)
{
    static const uint8_t unspecified[16];

    if (sn_gid_is_ipv4(addr->gid)) return usable_ipv4(addr->gid + 12) ? 0 : -EADDRNOTAVAIL;
    if (memcmp(addr->gid, unspecified, 16) == 0 || addr->gid[0] == 0xff) return -EADDRNOTAVAIL;
    return link_local(addr->gid) && !addr->scope ? -EADDRNOTAVAIL : 0;
}

int sn_addr_parse(const char *text, struct sn_addr *addr)
{
    char host[INET6_ADDRSTRLEN];
    const char *zone = strchr(text, '%');
    size_t len = zone ? (size_t)(zone - text) : strlen(text);
    struct in_addr v4;

    memset(addr, 0, sizeof(*addr));
    if (len >= sizeof(host)) return -EINVAL;
    memcpy(host, text, len);
    host[len] = 0;
    if (!zone && inet_pton(AF_INET, host, &v4) == 1) {
        sn_gid_from_ipv4(addr->gid, ntohl(v4.s_addr));
        return config_addr_check(addr);
    }
    if (inet_pton(AF_INET6, host, addr->gid) != 1) return -EINVAL;
    if (zone) {
        addr->scope = if_nametoindex(zone + 1);
        if (!addr->scope || !link_local(addr->gid)) return -EADDRNOTAVAIL;
    }
    return config_addr_check(addr);
}

char *sn_addr_text(const struct sn_addr *addr, char *buf)
{
    if (sn_gid_is_ipv4(addr->gid)) {
        inet_ntop(AF_INET, addr->gid + 12, buf, SN_ADDR_TEXT);
        return buf;
    }
    inet_ntop(AF_INET6, addr->gid, buf, SN_ADDR_TEXT);
    if (addr->scope) {
        char name[IF_NAMESIZE] = "?";

        if_indextoname(addr->scope, name);
        snprintf(buf + strlen(buf), SN_ADDR_TEXT - strlen(buf), "%%%s", name);
    }
    return buf;
}

socklen_t sn_addr_to_sock(const struct sn_addr *addr, uint16_t port, struct sockaddr_in6 *sa)
{
    memset(sa, 0, sizeof(*sa));
    if (sn_gid_is_ipv4(addr->gid)) {
        struct sockaddr_in *sin = (struct sockaddr_in *)sa;

        sin->sin_family = AF_INET;
        sin->sin_port = htons(port);
        memcpy(&sin->sin_addr, addr->gid + 12, 4);
        return sizeof(*sin);
    }
    sa->sin6_family = AF_INET6;
    sa->sin6_port = htons(port);
    memcpy(&sa->sin6_addr, addr->gid, 16);
    sa->sin6_scope_id = addr->scope;
    return sizeof(*sa);
}

bool sn_addr_from_sock(const struct sockaddr_in6 *sa, uint8_t gid[16], uint16_t *port)
{
    if (sa->sin6_family == AF_INET) {
        const struct sockaddr_in *sin = (const struct sockaddr_in *)sa;

        sn_gid_from_ipv4(gid, ntohl(sin->sin_addr.s_addr));
        *port = ntohs(sin->sin_port);
        return true;
    }
    if (sa->sin6_family != AF_INET6) return false;
    memcpy(gid, &sa->sin6_addr, 16);
    *port = ntohs(sa->sin6_port);
    return true;
}

/* Connecting a datagram socket looks at the routing table alone. */
bool sn_addr_source(const struct sn_addr *to, struct sn_addr *addr)
{
    struct sockaddr_in6 sa;
    uint16_t port;
    bool found = false;
    socklen_t len = sn_addr_to_sock(to, 9, &sa);
    int fd = socket(sa.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    if (connect(fd, (struct sockaddr *)&sa, len) == 0) {
        len = sizeof(sa);
        memset(addr, 0, sizeof(*addr));
        found = getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
                sn_addr_from_sock(&sa, addr->gid, &port) && config_addr_check(addr) == 0;
    }
    close(fd);
    return found;
}

void sn_addr_default(struct sn_addr *addr)
{
    /* Documentation addresses: no host has them, so only the default route leads there. */
    static const char *const nobody[] = {"203.0.113.1", "2001:db8::1"};
    struct sn_addr to;

    for (int i = 0; i < 2; i++)
        if (sn_addr_parse(nobody[i], &to) == 0 && sn_addr_source(&to, addr)) return;
    memset(addr, 0, sizeof(*addr));
    sn_gid_from_ipv4(addr->gid, INADDR_LOOPBACK);
}

/* 2: the interface has this very address; 1: the address lies in its subnet (127.0.0.2 on lo); 0: neither. */
static int config_addr_has_address(const struct ifaddrs *ifa, const struct sn_addr *addr)
{
    uint8_t gid[16];
    uint16_t port;

    if (!ifa->ifa_addr || !sn_addr_from_sock((struct sockaddr_in6 *)ifa->ifa_addr, gid, &port)) return 0;
    if (memcmp(gid, addr->gid, 16) == 0) return 2;
    if (ifa->ifa_addr->sa_family != AF_INET || !sn_gid_is_ipv4(addr->gid) || !ifa->ifa_netmask) return 0;

    uint32_t mine, want, mask = ((struct sockaddr_in *)ifa->ifa_netmask)->sin_addr.s_addr;
    memcpy(&mine, gid + 12, 4);
    memcpy(&want, addr->gid + 12, 4);
    return (mine & mask) == (want & mask);
}

static int interface_mtu(const char *name)
{
    struct ifreq req;
    int mtu = 0, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    memset(&req, 0, sizeof(req));
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFMTU, &req) == 0) mtu = req.ifr_mtu;
    close(fd);
    return mtu;
}

uint32_t sn_path_mtu(int mtu)
{
    uint32_t path = 256;

    while (path < 4096 && (int)path * 2 <= mtu - 80) path *= 2;
    return path;
}

uint32_t sn_if_path_mtu(const char *name)
{
    return sn_path_mtu(interface_mtu(name));
}

/* How well the best interface fits (config_addr_has_address); *mtu is that one's. -1: there is no telling. */
static int best_interface(const struct sn_addr *addr, int *mtu)
{
    struct ifaddrs *list, *ifa;
    int best = 0;

    if (getifaddrs(&list)) return -1;
    for (ifa = list; ifa; ifa = ifa->ifa_next) {
        int match = config_addr_has_address(ifa, addr);

        if (match <= best) continue;
        best = match;
        *mtu = interface_mtu(ifa->ifa_name);
    }
    freeifaddrs(list);
    return best;
}

uint32_t sn_addr_path_mtu(const struct sn_addr *addr)
{
    int mtu = 0;

    best_interface(addr, &mtu);
    return sn_path_mtu(mtu > 0 ? mtu : 1500);
}

bool sn_addr_is_local(const struct sn_addr *addr)
{
    int mtu;

    return best_interface(addr, &mtu) == 2;
}

bool sn_addr_is_loopback(const struct sn_addr *addr)
{
    static const uint8_t one[16] = {[15] = 1};

    return sn_gid_is_ipv4(addr->gid) ? addr->gid[12] == 127 : !memcmp(addr->gid, one, 16);
}

bool sn_lo_is_down(void)
{
    struct ifreq req = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool down;

    if (fd < 0) return false;
    down = ioctl(fd, SIOCGIFFLAGS, &req) == 0 && !(req.ifr_flags & IFF_UP);
    close(fd);
    return down;
}
