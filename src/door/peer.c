/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel which user has the other end of a TCP connection. */
#include "src/door/peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LOOPBACK_INDEX 1 /* of the loopback interface, in every network namespace */

void gw_peer_plain(union gw_peer_address *a)
{
    if (a->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr)) return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = a->v6.sin6_port};
    memcpy(&v4.sin_addr, &a->v6.sin6_addr.s6_addr[12], 4);
    a->v4 = v4;
}

int gw_peer_of(int fd, struct gw_peer *p)
{
    socklen_t us = sizeof(p->us), them = sizeof(p->them);
    struct tcp_info info;
    socklen_t n = sizeof(info);
    memset(p, 0, sizeof(*p));
    if (getsockname(fd, &p->us.any, &us) || getpeername(fd, &p->them.any, &them)) return -errno;
    if (p->us.any.sa_family != AF_INET && p->us.any.sa_family != AF_INET6) return -EAFNOSUPPORT;
    gw_peer_plain(&p->us);
    gw_peer_plain(&p->them);
    p->open = !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) && info.tcpi_state == TCP_ESTABLISHED;
    return 0;
}

/* ---- the kernel's answers ---- */

struct answer {
    struct nlmsghdr head;
    union {
        struct inet_diag_msg diag;
        struct rtmsg route;
        char bytes[1024];
    };
};

/* One request, one answer, which the kernel writes while the request is sent. Returns the answer's bytes
 * after its head, when it is of that type; otherwise 0. */
static size_t kernel_ask(int protocol, const struct nlmsghdr *request, uint16_t type, struct answer *a)
{
    struct sockaddr_nl from = {0};
    socklen_t length = sizeof(from);
    ssize_t n = -1;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0) return 0;
    if (send(fd, request, request->nlmsg_len, 0) == (ssize_t)request->nlmsg_len)
        n = recvfrom(fd, a, sizeof(*a), MSG_DONTWAIT, (struct sockaddr *)&from, &length);
    close(fd);
    if (n < (ssize_t)sizeof(a->head) || from.nl_pid || a->head.nlmsg_type != type) return 0;
    return (size_t)n - sizeof(a->head);
}

static const void *address_bytes(const union gw_peer_address *a, size_t *bytes)
{
    *bytes = a->any.sa_family == AF_INET ? 4 : 16;
    return a->any.sa_family == AF_INET ? (const void *)&a->v4.sin_addr : (const void *)&a->v6.sin6_addr;
}

/* ---- addresses ---- */

/* An address that means something on one link only. */
static uint32_t link_of(const union gw_peer_address *a)
{
    int local = a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr);
    return local ? a->v6.sin6_scope_id : 0;
}

bool gw_peer_is_here(const union gw_peer_address *a)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr to;
        uint8_t address[16];
    } ask = {.head = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST},
             .route = {.rtm_family = (uint8_t)a->any.sa_family},
             .to = {.rta_type = RTA_DST}};
    struct answer answer;
    size_t bytes;
    const void *at = address_bytes(a, &bytes);
    if (a->any.sa_family == AF_INET && ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) return true;
    if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr)) return true;
    memcpy(ask.address, at, bytes);
    ask.route.rtm_dst_len = (uint8_t)(8 * bytes);
    ask.to.rta_len = (uint16_t)RTA_LENGTH(bytes);
    ask.head.nlmsg_len = (uint32_t)(sizeof(ask) - sizeof(ask.address) + bytes);
    size_t got = kernel_ask(NETLINK_ROUTE, &ask.head, RTM_NEWROUTE, &answer);
    return got >= sizeof(answer.route) && answer.route.rtm_type == RTN_LOCAL;
}

/* ---- sockets ---- */

static void put_end(const union gw_peer_address *a, __be16 *port, __be32 address[4])
{
    size_t bytes;
    const void *at = address_bytes(a, &bytes);
    *port = a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port;
    memcpy(address, at, bytes);
}

/* Only an inode says that a process has the socket: of one that was closed, also of one in TIME_WAIT, the
 * kernel reports user 0. A listening socket of the same port has taken no part in the connection. */
static enum gw_peer_end peer_end_of(const struct inet_diag_msg *m)
{
    if (m->idiag_state == TCP_LISTEN || m->idiag_state == TCP_SYN_SENT) return GW_PEER_NOT_TOLD;
    if (!m->idiag_inode) return GW_PEER_GONE;
    return m->idiag_state == TCP_ESTABLISHED ? GW_PEER_ESTABLISHED : GW_PEER_CLOSING;
}

enum gw_peer_end gw_peer_look(const struct gw_peer *p, uint32_t *uid)
{
    /* The interface. A socket that is bound to none is found by any. One that is bound to the loopback
     * interface is found only by that one, through which the host's packets to itself go. */
    uint32_t link = link_of(&p->them);
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 diag;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .diag = {.sdiag_family = (uint8_t)p->them.any.sa_family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0u,
                 .id.idiag_if = link ? link : LOOPBACK_INDEX,
                 .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    struct answer answer;
    put_end(&p->them, &ask.diag.id.idiag_sport, ask.diag.id.idiag_src);
    put_end(&p->us, &ask.diag.id.idiag_dport, ask.diag.id.idiag_dst);
    size_t got = kernel_ask(NETLINK_SOCK_DIAG, &ask.head, SOCK_DIAG_BY_FAMILY, &answer);
    if (got < sizeof(answer.diag)) return GW_PEER_NOT_TOLD;
    *uid = answer.diag.idiag_uid;
    return peer_end_of(&answer.diag);
}
