/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the server's doors: listening on TCP, and how many connections each may have. */
#ifndef GW_DOOR_LISTEN_H
#define GW_DOOR_LISTEN_H

#include <stdint.h>

#define GW_LISTEN_MAX 1024u /* connections of a door, however many descriptors there may be */

/* A listening socket that does not block. `what` names the door in errors, `option` what chooses its port.
 * `host` is a numeric address, NULL: 127.0.0.1. A port of 0 is any free one; *bound is which. The descriptor,
 * or a negative errno with the reason in gw_last_error(). */
int gw_listen_tcp(const char *what, const char *option, const char *host, uint16_t port, uint16_t *bound);

/* A client's machine that vanishes closes nothing: keep-alive finds out within about half a minute. */
void gw_listen_watch(int fd);

/* How many connections a door may have. Each takes `each` descriptors. The process keeps a quarter of all its
 * descriptors for itself, and some in any case. */
uint32_t gw_listen_places(uint32_t each);

#endif
