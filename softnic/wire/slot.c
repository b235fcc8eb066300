/* SPDX-License-Identifier: Apache-2.0 */
/* Claims one of an address's 256 UDP ports. */
#include "softnic/wire/slot.h"

#include <errno.h>
#include <linux/in6.h>
#include <linux/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "softnic/base/errno_text.h"
#include "softnic/wire/owner.h"
#include "src/roce/hdr.h"

/* Bursts of many flows end in one socket; what does not fit its buffer is lost and has to be sent again. */
enum { SOCKET_BUFFER = 4 << 20 };

static void slot_set_buffers(int fd)
{
    int size = SOCKET_BUFFER;

    /* The FORCE forms may exceed the system's limit, and need CAP_NET_ADMIN. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size))) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size))) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    }
}

/*
 * Don't fragment, and with it, on a socket that is not connected, an IPv4 ID of 0: the ICRC covers both.
 * Errors that other hosts and ports report are queued, so that they can be counted; congestion marks are
 * told.
 */
static int set_ip_options(int fd, bool ipv4)
{
    int on = 1, pmtu = ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

    if (ipv4) {
        if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &pmtu, sizeof(pmtu))) return -errno;
        if (setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on))) return -errno;
        return setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) ? -errno : 0;
    }
    /* RoCEv2 packets may come without a UDP checksum: they have the ICRC. */
    if (setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on))) return -errno;
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) return -errno;
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &pmtu, sizeof(pmtu))) return -errno;
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on))) return -errno;
    return setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on)) ? -errno : 0;
}

static int slot_new_socket(const struct sn_addr *addr)
{
    bool ipv4 = sn_gid_is_ipv4(addr->gid);
    int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0) return -errno;
    err = set_ip_options(fd, ipv4);
    if (err) {
        close(fd);
        return err;
    }
    slot_set_buffers(fd);
    return fd;
}

static int slot_bind_to(int fd, const struct sn_addr *addr, uint16_t port)
{
    struct sockaddr_in6 sa;
    socklen_t len = sn_addr_to_sock(addr, port, &sa);

    return bind(fd, (struct sockaddr *)&sa, len) ? -errno : 0;
}

static int explain(int err, const struct sn_addr *addr, char *why)
{
    char text[SN_ADDR_TEXT], users[SN_OWNER_USERS];

    sn_addr_text(addr, text);
    if (err == -EADDRINUSE) {
        snprintf(why, 256,
                 "all 256 slots at %s are taken (UDP ports %d to %d): %s; end some, or use another address: "
                 "GPUWIRE_NIC=addr=IP",
                 text, SN_SLOT_PORT, SN_SLOT_PORT + SN_SLOTS - 1,
                 sn_owner_users(addr->gid, SN_SLOT_PORT, SN_SLOT_PORT + SN_SLOTS - 1, users));
    } else if (err == -EADDRNOTAVAIL) {
        snprintf(why, 256, "%s is no address of this host; give one that is: GPUWIRE_NIC=addr=IP", text);
    } else {
        snprintf(why, 256, "cannot use UDP at %s: %s", text, sn_errno_text(-err));
    }
    return err;
}

/* A socket that only keeps others from a port: at this address, or everywhere but for the same user. */
static int hold_port(const struct sn_addr *addr, bool everywhere, uint16_t port)
{
    bool ipv4 = sn_gid_is_ipv4(addr->gid);
    int on = 1, least = 0, err = 0, fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sn_addr any = {.gid = {0}};

    if (fd < 0) return -errno;
    if (everywhere && ipv4) memcpy(any.gid, addr->gid, 12);       /* which makes it 0.0.0.0 */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)); /* the least that the system has */
    if (!ipv4 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on))) err = -errno;
    if (!err && everywhere && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) err = -errno;
    if (!err) err = slot_bind_to(fd, everywhere ? &any : addr, port);
    if (!err) return fd;
    close(fd);
    return err;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* The claim first: of two processes of a user that want the same slot one goes on. */
static int claim_one(const struct sn_addr *addr, unsigned number, struct sn_slot *slot)
{
    int err;

    slot->slot = number;
    slot->claim_fd = hold_port(addr, false, (uint16_t)(SN_CLAIM_PORT + number));
    if (slot->claim_fd < 0) return slot->claim_fd;
    slot->guard_fd = hold_port(addr, true, (uint16_t)(SN_SLOT_PORT + number));
    err =
        slot->guard_fd < 0 ? slot->guard_fd : slot_bind_to(slot->fd, addr, (uint16_t)(SN_SLOT_PORT + number));
    if (!err) return 0;
    close_fd(&slot->claim_fd);
    close_fd(&slot->guard_fd);
    return err;
}

static int claim_any(const struct sn_addr *addr, unsigned start, struct sn_slot *slot)
{
    int on = 1, err = -EADDRINUSE;

    if (setsockopt(slot->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) return -errno;
    for (unsigned i = 0; i < SN_SLOTS && err == -EADDRINUSE; i++)
        err = claim_one(addr, (start + i) % SN_SLOTS, slot);
    return err;
}

/* Another user's process, or another program, may have the port without SO_REUSEPORT for us: then we do
 * without. */
static int join_shared(const struct sn_addr *addr)
{
    int on = 1, err, fd = slot_new_socket(addr);

    if (fd < 0) return fd;
    err = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ? -errno
                                                                    : slot_bind_to(fd, addr, ROCE_UDP_PORT);
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}

int sn_slot_claim(const struct sn_addr *addr, unsigned start, struct sn_slot *slot, char why[256])
{
    int err;

    memset(slot, 0, sizeof(*slot));
    slot->shared_fd = slot->claim_fd = slot->guard_fd = -1;
    slot->fd = slot_new_socket(addr);
    if (slot->fd < 0) return explain(slot->fd, addr, why);
    err = claim_any(addr, start, slot);
    if (err) {
        sn_slot_release(slot);
        return explain(err, addr, why);
    }
    slot->shared_fd = join_shared(addr);
    if (slot->shared_fd < 0) {
        slot->shared_err = slot->shared_fd;
        slot->shared_fd = -1;
    }
    return 0;
}

void sn_slot_release(struct sn_slot *slot)
{
    close_fd(&slot->fd);
    close_fd(&slot->shared_fd);
    /* These last: until the slot's own socket is closed no other process may send from its port. */
    close_fd(&slot->guard_fd);
    close_fd(&slot->claim_fd);
}
