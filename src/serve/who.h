/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a TCP connection, as far as limits go: a user of this host, or another host. */
#ifndef GW_SERVE_WHO_H
#define GW_SERVE_WHO_H

#define GW_WHO_TEXT 64

/* Names the peer of a connected TCP socket. "user 1000": a process of this host, whichever of the host's
 * addresses it uses; "this host" when its user is not known. Else its IPv4 address, or the first 64 bits
 * of its IPv6 address: a host chooses the other bits freely. Always writes a name. */
void gw_who(int fd, char who[GW_WHO_TEXT]);

#endif
