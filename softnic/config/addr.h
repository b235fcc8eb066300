/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addr.h: addresses of NICs, in the form of a GID.
 *
 * An IPv4 address a.b.c.d is the GID ::ffff:a.b.c.d, as on a RoCEv2 port; an IPv6 address is itself. All
 * functions may be called by any thread; none sends a packet.
 */
#ifndef SOFTNIC_CONFIG_ADDR_H
#define SOFTNIC_CONFIG_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "softnic/base/gid.h"

struct sn_addr {
    uint8_t gid[16];
    uint32_t scope; /* interface index of an IPv6 link-local address, else 0 */
};

enum { SN_ADDR_TEXT = INET6_ADDRSTRLEN + 20 };

/* An IPv4 address in host order as a GID. */
void sn_gid_from_ipv4(uint8_t gid[16], uint32_t ip);

/*
 * Reads "192.0.2.7", "2001:db8::7" or "fe80::1%eth0". Returns 0; -EINVAL: no such text; -EADDRNOTAVAIL: an
 * address that no NIC can have (unspecified, multicast, broadcast, or a link-local one without its
 * interface).
 */
int sn_addr_parse(const char *text, struct sn_addr *addr);
/* Writes the text form to buf, which has room for SN_ADDR_TEXT bytes. Returns buf. */
char *sn_addr_text(const struct sn_addr *addr, char *buf);

/* The source address that this host would use towards `to`; false: it has no route there. */
bool sn_addr_source(const struct sn_addr *to, struct sn_addr *from);

/*
 * The address this host is reached by: the source address of its default route (IPv4, else IPv6), 127.0.0.1
 * if it has none.
 */
void sn_addr_default(struct sn_addr *addr);

/*
 * The largest RoCE path MTU (256 … 4096) that fits the interface that has this address. 80 bytes of the
 * interface's MTU are for headers, as Linux' own soft-RoCE computes it (1500 gives 1024).
 */
uint32_t sn_addr_path_mtu(const struct sn_addr *addr);
/* The same for the interface of that name (256 if there is none), and for an MTU in bytes. */
uint32_t sn_if_path_mtu(const char *name);
uint32_t sn_path_mtu(int mtu);

/* Has an interface of this host this very address? */
bool sn_addr_is_local(const struct sn_addr *addr);

/* An address of the loopback interface: 127.0.0.0/8 or ::1. */
bool sn_addr_is_loopback(const struct sn_addr *addr);
/* Is this network namespace's loopback interface down? Then packets to 127.0.0.0/8 get lost. False where that
 * cannot be found out. */
bool sn_lo_is_down(void);

/* To and from socket addresses. The first returns the length; the second false for another family. */
socklen_t sn_addr_to_sock(const struct sn_addr *addr, uint16_t port, struct sockaddr_in6 *sa);
bool sn_addr_from_sock(const struct sockaddr_in6 *sa, uint8_t gid[16], uint16_t *port);

#endif
