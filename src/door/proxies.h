/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse proxies that the server's owner trusts: X-Forwarded-For names the client of their calls. */
#ifndef GW_DOOR_PROXIES_H
#define GW_DOOR_PROXIES_H

#include <stdbool.h>

#include "src/door/who.h"

#define GW_PROXIES_MAX 16

struct gw_proxy {
    uint8_t address[16]; /* IPv4 as IPv6 writes it */
    uint32_t bits;       /* of it, that count; 0: it is a user of this host, who: */
    char who[GW_WHO_TEXT];
};

struct gw_proxies {
    struct gw_proxy proxy[GW_PROXIES_MAX];
    uint32_t count;
};

/* Reads "10.0.0.7, fd00::/64, user 33": addresses, networks, and users of this host. `option` is what
 * messages call it. 0 or -EINVAL with the reason in gw_last_error(). NULL is an empty list. */
int gw_proxies_parse(const char *option, const char *list, struct gw_proxies *out);

/* Is the peer of that socket, with that name, one of them? */
bool gw_proxies_has(const struct gw_proxies *p, int fd, const char *who);

/* The client that a proxy speaks for: the last address of its X-Forwarded-For that is no proxy itself, as
 * gw_who names hosts. An address of this host, or what is no address, leaves the proxy's own name in `who`: a
 * forwarded name never has the rights of a user. */
void gw_proxies_client(const struct gw_proxies *p, const char *forwarded_for, char who[GW_WHO_TEXT]);

#endif
