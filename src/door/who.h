/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a TCP connection: a user of this host, or another host. Every door asks here,
 * once, when the connection is accepted. The name then belongs to the connection: bytes that arrive later
 * were written by the same socket, even if another process has its port by then. */
#ifndef GW_DOOR_WHO_H
#define GW_DOOR_WHO_H

#include <stdbool.h>
#include <stdint.h>

#define GW_WHO_TEXT 64

/* Names the peer of a connected TCP socket:
 *   "user 1000"      that user of this host, whichever of the host's addresses it uses;
 *   "this host"      a process of this host whose user is not known, or has no number in this user namespace;
 *   "192.0.2.7"      another host; of an IPv6 address the first 64 bits, as a host chooses the others freely.
 *
 * Always writes a name. 0, or -ENOTCONN: the peer has closed its end. There is no client to answer, and the
 * server must do nothing in anyone's name. */
int gw_who(int fd, char who[GW_WHO_TEXT]);

union gw_peer_address;
/* The name of another host, by its address. */
void gw_who_host(const union gw_peer_address *a, char who[GW_WHO_TEXT]);

/* Is the peer of this socket still that user of this host, with an open connection? Asks the kernel again:
 * what gives a client more than limits (its own shared memory) asks this first. */
bool gw_who_is_here(int fd, const char *who);

/* True and *uid: the name is a user's of this host. 0: it belongs to no user with rights here. */
bool gw_who_user(const char *who, uint32_t *uid);

#endif
