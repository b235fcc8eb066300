/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the routing table whether an address is this host's, and remembers the answer for a moment. */
#include "softnic/wire/near.h"
#include "softnic/base/clock.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An answer costs four system calls; so often, for all peers that are known, they are next to nothing. */
#define HOLDS_NS 100000000u
#define DOUBT_NS 5000000u

struct question {
    struct nlmsghdr head;
    struct rtmsg route;
    char attributes[RTA_SPACE(16) + RTA_SPACE(4)];
};

static void near_add(struct question *q, unsigned short type, const void *data, unsigned short len)
{
    struct rtattr *a = (struct rtattr *)(void *)((char *)q + q->head.nlmsg_len);

    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(len);
    memcpy(RTA_DATA(a), data, len);
    q->head.nlmsg_len += RTA_SPACE(len);
}

/* 1: packets to it stay on this host; 0: they leave, or have no way; a negative errno: the system does not
 * say. */
static int ask_route(const struct sn_addr *addr)
{
    bool ipv4 = sn_gid_is_ipv4(addr->gid);
    struct question q = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                                  .nlmsg_type = RTM_GETROUTE,
                                  .nlmsg_flags = NLM_F_REQUEST}};
    union {
        struct nlmsghdr head;
        char bytes[2048];
    } in;
    const struct rtmsg *route = NLMSG_DATA(&in.head);
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t n = -1;

    if (fd < 0) return -errno;
    q.route.rtm_family = ipv4 ? AF_INET : AF_INET6;
    q.route.rtm_dst_len = ipv4 ? 32 : 128;
    near_add(&q, RTA_DST, addr->gid + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
    if (addr->scope) near_add(&q, RTA_OIF, &addr->scope, 4);
    if (send(fd, &q, q.head.nlmsg_len, MSG_DONTWAIT) > 0) n = recv(fd, &in, sizeof(in), MSG_DONTWAIT);
    close(fd);
    if (n < (ssize_t)sizeof(in.head)) return -EIO;
    if (in.head.nlmsg_type == NLMSG_ERROR) return 0;
    if (in.head.nlmsg_type != RTM_NEWROUTE || n < (ssize_t)NLMSG_LENGTH(sizeof(*route))) return -EIO;
    return route->rtm_type == RTN_LOCAL;
}

/* Where there is no netlink. */
static bool can_bind(const struct sn_addr *addr)
{
    struct sockaddr_in6 sa;
    socklen_t len = sn_addr_to_sock(addr, 0, &sa);
    int fd = socket(sa.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0;

    if (fd >= 0) close(fd);
    return can;
}

/* A clock of some milliseconds will do, and is the cheapest to read. */
static uint64_t near_now(void)
{
    return sn_clock_ns(CLOCK_MONOTONIC_COARSE) + 1;
}

bool sn_near_is_now(const struct sn_addr *addr)
{
    int is = ask_route(addr);

    return is < 0 ? can_bind(addr) : is != 0;
}

/* Hosts of one network differ in a few bits of their addresses, and are not to compete for one place. */
static struct sn_near_answer *near_place(struct sn_near_cache *cache, const uint8_t gid[16])
{
    uint64_t half[2];

    memcpy(half, gid, 16);
    half[1] = (half[1] ^ half[0] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return &cache->known[half[1] >> (64 - SN_NEAR_BITS)];
}

bool sn_near_is(struct sn_near_cache *cache, const struct sn_addr *addr)
{
    struct sn_near_answer *a = near_place(cache, addr->gid);
    uint64_t now = near_now();

    if (a->asked_ns && now - a->asked_ns < (a->is ? HOLDS_NS : DOUBT_NS) && !memcmp(a->gid, addr->gid, 16))
        return a->is;
    a->is = sn_near_is_now(addr);
    a->asked_ns = now;
    memcpy(a->gid, addr->gid, 16);
    return a->is;
}
