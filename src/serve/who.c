/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/who.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An IPv4 address in IPv6's clothes is an IPv4 address. */
static void plain(union address *a)
{
    if (a->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr)) return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = a->v6.sin6_port};
    memcpy(&v4.sin_addr, &a->v6.sin6_addr.s6_addr[12], 4);
    a->v4 = v4;
}

static int same_host(const union address *us, const union address *them)
{
    if (us->any.sa_family != them->any.sa_family) return 0;
    if (us->any.sa_family == AF_INET)
        return us->v4.sin_addr.s_addr == them->v4.sin_addr.s_addr ||
               ntohl(them->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_ARE_ADDR_EQUAL(&us->v6.sin6_addr, &them->v6.sin6_addr);
}

static void put_end(union address *a, __be16 *port, __be32 address[4])
{
    *port = a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port;
    if (a->any.sa_family == AF_INET)
        memcpy(address, &a->v4.sin_addr, 4);
    else
        memcpy(address, &a->v6.sin6_addr, 16);
}

/* The kernel's answer to "whose is the socket with these two ends?": 1, and *uid. `family` is the
 * socket's own. */
static int ask_uid(int netlink, int family, union address *them, union address *us, uint32_t *uid)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 diag;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .diag = {.sdiag_family = (uint8_t)family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0u,
                 .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg diag;
        char more[512];
    } answer;

    put_end(them, &ask.diag.id.idiag_sport, ask.diag.id.idiag_src);
    put_end(us, &ask.diag.id.idiag_dport, ask.diag.id.idiag_dst);
    if (send(netlink, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask)) return 0;
    ssize_t n = recv(netlink, &answer, sizeof(answer), 0);
    if (n < (ssize_t)(sizeof(answer.head) + sizeof(answer.diag)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return 0;
    *uid = answer.diag.idiag_uid;
    return 1;
}

static int uid_of(union address *them, union address *us, uint32_t *uid)
{
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), found;
    if (netlink < 0) return 0;
    found = ask_uid(netlink, them->any.sa_family, them, us, uid);
    close(netlink);
    return found;
}

void gw_who(int fd, char who[GW_WHO_TEXT])
{
    union address us = {0}, them = {0};
    socklen_t n = sizeof(us), m = sizeof(them);
    char text[INET6_ADDRSTRLEN] = "?";
    uint32_t uid;

    snprintf(who, GW_WHO_TEXT, "this host");
    if (getsockname(fd, &us.any, &n) || getpeername(fd, &them.any, &m)) return;
    plain(&us);
    plain(&them);
    if (same_host(&us, &them)) {
        if (uid_of(&them, &us, &uid)) snprintf(who, GW_WHO_TEXT, "user %u", uid);
        return;
    }
    if (them.any.sa_family == AF_INET6) memset(&them.v6.sin6_addr.s6_addr[8], 0, 8);
    inet_ntop(them.any.sa_family,
              them.any.sa_family == AF_INET ? (void *)&them.v4.sin_addr : (void *)&them.v6.sin6_addr, text,
              sizeof(text));
    snprintf(who, GW_WHO_TEXT, "%s%s", text, them.any.sa_family == AF_INET6 ? "/64" : "");
}
