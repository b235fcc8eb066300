/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes addresses. */
#include "src/fleet/wire/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/wire/message.h"

/* Cuts the text into host and port; the port is one of the numbers that a port can be. */
static bool address_cut(const char *text, char host[FLEET_ADDRESS], const char **port)
{
    const char *colon = strrchr(text, ':');
    if (!colon || strlen(text) >= FLEET_ADDRESS || colon == text) return false;
    *port = colon + 1;
    size_t n = (size_t)(colon - text), digits = strspn(*port, "0123456789");
    bool in_brackets = text[0] == '[' && n > 2 && text[n - 1] == ']';
    if (in_brackets) text++, n -= 2;
    memcpy(host, text, n);
    host[n] = 0;
    if (!in_brackets && strchr(host, ':')) return false; /* IPv6 without brackets: where is the port? */
    if (!digits || digits > 5 || (*port)[digits]) return false;
    unsigned number = 0;
    sscanf(*port, "%5u", &number);
    return number < 65536;
}

bool fleet_address_ok(const char *text)
{
    char host[FLEET_ADDRESS];
    const char *port;
    return address_cut(text, host, &port);
}

int fleet_address_read(const char *text, bool to_listen, struct fleet_address *out)
{
    char host[FLEET_ADDRESS];
    const char *port;
    struct addrinfo *found = NULL,
                    want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (to_listen) want.ai_flags |= AI_PASSIVE;
    if (!address_cut(text, host, &port))
        return gw_error(-EINVAL, "%.80s: give HOST:PORT, or [IPV6]:PORT", text);
    int code = getaddrinfo(host, port, &want, &found);
    if (code) return gw_error(-EINVAL, "%s: %s", text, gai_strerror(code));
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

uint16_t fleet_address_port(const struct fleet_address *a)
{
    return ntohs(a->at.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&a->at)->sin6_port
                                             : ((const struct sockaddr_in *)&a->at)->sin_port);
}

void fleet_address_text(const struct fleet_address *a, char *out, size_t room)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool six = a->at.ss_family == AF_INET6;
    const void *ip = six ? (const void *)&((const struct sockaddr_in6 *)&a->at)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)&a->at)->sin_addr;
    inet_ntop(six ? AF_INET6 : AF_INET, ip, host, sizeof(host));
    snprintf(out, room, six ? "[%s]:%u" : "%s:%u", host, fleet_address_port(a));
}

bool fleet_address_loopback(const struct fleet_address *a)
{
    if (a->at.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->at)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)&a->at)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}
