/* SPDX-License-Identifier: Apache-2.0 */
/* Where rank 0 listens, and how the others reach it. */
#ifndef SRC_RANKS_ADDRESS_H
#define SRC_RANKS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_RANKS_HOSTS 512 /* bytes of a list of addresses or names, with blanks between them */

/* HOST:PORT or [ADDRESS]:PORT. -EINVAL with a line: `what` names where the text comes from. */
int gw_ranks_split(const char *what, const char *text, char host[GW_RANKS_HOSTS], uint16_t *port);

/* A listening socket at host (NULL: all addresses) and port (0: any). *bound becomes its port. Negative errno
 * with a line. */
int gw_ranks_listen(const char *host, uint16_t port, uint16_t *bound);

/* One round of attempts, a second each, at the hosts of a list. A socket, or the last error without a
 * line. */
int gw_ranks_dial(const char *hosts, uint16_t port, uint64_t deadline_ns);

/* This host's own addresses, as a list; loopback alone where there are no others. */
void gw_ranks_own(char hosts[GW_RANKS_HOSTS]);

/* The same for all processes of a host, and for no other host. */
uint64_t gw_ranks_host(void);

/* Small frames leave at once, and a host that disappears is noticed after half a minute. */
void gw_ranks_tune(int fd);

#endif
