/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel about the other end of a TCP connection: whether it is on this host, and which user has it.
 */
#ifndef GW_DOOR_PEER_H
#define GW_DOOR_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union gw_peer_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An IPv4 address that is written as an IPv6 address becomes an IPv4 address. */
void gw_peer_plain(union gw_peer_address *a);

struct gw_peer {
    union gw_peer_address us, them; /* plain */
    int open;                       /* 1: nothing has come yet that ends the connection */
};

/* The ends of a connected socket. 0 or a negative errno. */
int gw_peer_of(int fd, struct gw_peer *p);

/* Has this host that address? By the routing table: an address may be anywhere on the host, and so may a
 * range of them. Loopback is, also when the kernel does not answer. */
bool gw_peer_is_here(const union gw_peer_address *a);

enum gw_peer_end {
    GW_PEER_NOT_TOLD, /* the kernel lists no such socket: addresses are translated, or it does not tell */
    GW_PEER_GONE,     /* no process has it any more */
    GW_PEER_CLOSING,  /* a process has it, which will send nothing more */
    GW_PEER_ESTABLISHED
};

/* Looks for the socket at the other end, on this host. With GW_PEER_CLOSING and GW_PEER_ESTABLISHED *uid is
 * its user. */
enum gw_peer_end gw_peer_look(const struct gw_peer *p, uint32_t *uid);

#endif
