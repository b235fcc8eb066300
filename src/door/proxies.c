/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the list of trusted proxies, and the client that a proxy names. */
#include "src/door/proxies.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/door/peer.h"

#define ADDRESS_ROOM 64

/* ---- addresses ---- */

static void put_v4(uint8_t to[16], const void *v4)
{
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + 12, v4, 4);
}

/* An address in digits. *bits: how many it has, as `to` counts them. -1: it is none. */
static int proxies_read_address(const char *text, uint8_t to[16], uint32_t *family_bits)
{
    struct in_addr v4;
    *family_bits = 128;
    if (inet_pton(AF_INET6, text, to) == 1) return 0;
    if (inet_pton(AF_INET, text, &v4) != 1) return -1;
    put_v4(to, &v4);
    *family_bits = 32;
    return 0;
}

static void proxies_bytes_of(const union gw_peer_address *a, uint8_t to[16])
{
    if (a->any.sa_family == AF_INET)
        put_v4(to, &a->v4.sin_addr);
    else
        memcpy(to, &a->v6.sin6_addr, 16);
}

static bool proxies_lies_in(const struct gw_proxy *p, const uint8_t address[16])
{
    uint32_t whole = p->bits / 8, rest = p->bits % 8;
    if (!p->bits || memcmp(p->address, address, whole)) return false;
    return !rest || !((p->address[whole] ^ address[whole]) >> (8 - rest));
}

static int knows_address(const struct gw_proxies *p, const uint8_t address[16])
{
    for (uint32_t i = 0; i < p->count; i++)
        if (proxies_lies_in(&p->proxy[i], address)) return 1;
    return 0;
}

/* ---- the list ---- */

static int read_proxy(char *text, struct gw_proxy *out)
{
    uint32_t uid, most;
    memset(out, 0, sizeof(*out));
    if (gw_who_user(text, &uid)) {
        snprintf(out->who, sizeof(out->who), "user %u", uid);
        return 0;
    }
    char *slash = strchr(text, '/'), *end = "";
    if (slash) *slash++ = 0;
    if (proxies_read_address(text, out->address, &most)) return -1;
    unsigned long bits = slash ? strtoul(slash, &end, 10) : most;
    if (*end || bits > most || !bits || (slash && (*slash < '0' || *slash > '9'))) return -1;
    out->bits = (uint32_t)bits + (128 - most);
    return 0;
}

/* The next entry, up to a comma, without the blanks around it. Returns what follows it. */
static const char *take_entry(const char *list, char text[ADDRESS_ROOM])
{
    list += strspn(list, " \t");
    size_t n = strcspn(list, ","), keep = n;
    while (keep && (list[keep - 1] == ' ' || list[keep - 1] == '\t')) keep--;
    if (keep >= ADDRESS_ROOM) keep = 0;
    memcpy(text, list, keep);
    text[keep] = 0;
    return list + n + (list[n] == ',');
}

int gw_proxies_parse(const char *option, const char *list, struct gw_proxies *out)
{
    char text[ADDRESS_ROOM];
    out->count = 0;
    while (list && *list) {
        list = take_entry(list, text);
        if (out->count == GW_PROXIES_MAX)
            return gw_error(-EINVAL, "%s: more than %d proxies; name a network", option, GW_PROXIES_MAX);
        if (read_proxy(text, &out->proxy[out->count]))
            return gw_error(-EINVAL,
                            "%s: '%s' must be an address, a network (10.0.0.0/24) or a user of this host "
                            "(user 33)",
                            option, text);
        out->count++;
    }
    return 0;
}

bool gw_proxies_has(const struct gw_proxies *p, int fd, const char *who)
{
    struct gw_peer peer;
    uint8_t address[16];
    if (!p->count) return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->proxy[i].who[0] && !strcmp(p->proxy[i].who, who)) return true;
    if (gw_peer_of(fd, &peer)) return false;
    proxies_bytes_of(&peer.them, address);
    return knows_address(p, address);
}

/* ---- a proxy's client ---- */

/* "192.0.2.7", "192.0.2.7:1234", "2001:db8::7" or "[2001:db8::7]:1234". */
static int read_client(char *text, union gw_peer_address *a)
{
    char *at = text, *end = strrchr(text, ':');
    memset(a, 0, sizeof(*a));
    if (*at == '[') {
        end = strchr(++at, ']');
        if (!end) return -1;
        *end = 0;
    } else if (end && strchr(text, ':') == end) {
        *end = 0;
    }
    if (inet_pton(AF_INET6, at, &a->v6.sin6_addr) == 1) {
        a->v6.sin6_family = AF_INET6;
        gw_peer_plain(a);
    } else if (inet_pton(AF_INET, at, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
    } else {
        return -1;
    }
    return 0;
}

void gw_proxies_client(const struct gw_proxies *p, const char *forwarded_for, char who[GW_WHO_TEXT])
{
    size_t end = forwarded_for ? strlen(forwarded_for) : 0;
    while (end) {
        char text[ADDRESS_ROOM];
        union gw_peer_address a;
        uint8_t address[16];
        size_t at = end;
        while (at && forwarded_for[at - 1] != ',') at--;
        take_entry(forwarded_for + at, text);
        if (read_client(text, &a)) return;
        proxies_bytes_of(&a, address);
        if (!knows_address(p, address)) {
            if (!gw_peer_is_here(&a)) gw_who_host(&a, who);
            return;
        }
        end = at ? at - 1 : 0;
    }
}
