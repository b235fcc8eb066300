/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints as text. They come from peers, so every character is checked. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/verbs.h>

void gw_endpoint_format(const struct gw_endpoint *ep, char text[GW_ENDPOINT_TEXT])
{
    char gid[33];

    for (int i = 0; i < 16; i++) snprintf(gid + 2 * i, 3, "%02x", ep->gid[i]);
    snprintf(text, GW_ENDPOINT_TEXT, "gw:1:%s:%06x:%06x:%u:%u", gid, ep->qpn & 0xffffff, ep->psn & 0xffffff,
             ep->mtu, ep->lid);
}

static int digit(char c, unsigned base)
{
    unsigned v = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                        : 99;

    return v < base ? (int)v : -1;
}

/* One number up to max, ended by `end`; moves *p behind that. */
static bool number(const char **p, unsigned base, uint32_t max, char end, uint32_t *out)
{
    uint64_t v = 0;
    int d, n = 0;

    for (; (d = digit(**p, base)) >= 0; ++*p, n++) {
        v = v * base + (unsigned)d;
        if (v > max) return false;
    }
    if (!n || **p != end) return false;
    if (end) ++*p;
    *out = (uint32_t)v;
    return true;
}

int gw_endpoint_parse(const char *text, struct gw_endpoint *ep)
{
    const char *p = text;
    struct gw_endpoint e;

    memset(&e, 0, sizeof(e));
    if (strncmp(p, "gw:1:", 5))
        return gw_error(-EINVAL, "not an endpoint of this version: it must start with gw:1:");
    p += 5;
    for (int i = 0; i < 16; i++, p += 2) {
        int hi = digit(p[0], 16), lo = hi < 0 ? -1 : digit(p[1], 16);

        if (lo < 0) return gw_error(-EINVAL, "endpoint: the address is not 32 hexadecimal digits");
        e.gid[i] = (uint8_t)(hi << 4 | lo);
    }
    if (*p++ != ':' || !number(&p, 16, 0xffffff, ':', &e.qpn) || !number(&p, 16, 0xffffff, ':', &e.psn) ||
        !number(&p, 10, 4096, ':', &e.mtu) || !number(&p, 10, 0xffff, 0, &e.lid) || e.qpn < 2 || e.mtu < 256)
        return gw_error(-EINVAL, "endpoint: a number is missing or out of range");
    *ep = e;
    return 0;
}
