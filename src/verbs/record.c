/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints and records as text. They come from peers, so every character is checked. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/connect.h>

#define VERSION "1"

void gw_endpoint_format(const struct gw_endpoint *ep, char text[GW_ENDPOINT_TEXT])
{
    char gid[33];

    for (int i = 0; i < 16; i++) snprintf(gid + 2 * i, 3, "%02x", ep->gid[i]);
    snprintf(text, GW_ENDPOINT_TEXT, "gw:" VERSION ":%s:%06x:%06x:%u:%u", gid, ep->qpn & 0xffffff,
             ep->psn & 0xffffff, ep->mtu, ep->lid);
}

void gw_record_format(const struct gw_record *r, char text[GW_RECORD_TEXT])
{
    size_t n;

    gw_endpoint_format(&r->ep, text);
    n = strlen(text);
    if (r->region.length)
        snprintf(text + n, GW_RECORD_TEXT - n, ":%" PRIx64 ":%" PRIx64 ":%" PRIx32, r->region.addr,
                 r->region.length, r->region.rkey);
}

void gw_record_of(const struct gw_qp *qp, const struct gw_mr *mr, struct gw_record *r)
{
    memset(r, 0, sizeof(*r));
    gw_qp_endpoint(qp, &r->ep);
    if (mr) r->region = (struct gw_region){mr->addr, mr->length, mr->rkey};
}

static int record_digit(char c, unsigned base)
{
    unsigned v = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                        : 99;

    return v < base ? (int)v : -1;
}

/* One number up to max; moves *p past it. */
static bool record_number(const char **p, unsigned base, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    int d, n = 0;

    for (; (d = record_digit(**p, base)) >= 0; ++*p, n++) {
        if (v > (max - (unsigned)d) / base) return false;
        v = v * base + (unsigned)d;
    }
    *out = v;
    return n > 0;
}

static bool small(const char **p, unsigned base, uint32_t max, uint32_t *out)
{
    uint64_t v;

    if (*(*p)++ != ':' || !record_number(p, base, max, &v)) return false;
    *out = (uint32_t)v;
    return true;
}

static int parse_endpoint(const char **p, struct gw_endpoint *e)
{
    if (strncmp(*p, "gw:", 3)) return gw_error(-EINVAL, "not a gpuwire record: it must start with gw:");
    *p += 3;
    if (strncmp(*p, VERSION ":", 2)) {
        size_t n = strspn(*p, "0123456789");

        if (!n || n > 9 || (*p)[n] != ':') return gw_error(-EINVAL, "record: no version after gw:");
        return gw_error(-EPROTONOSUPPORT,
                        "record of version %.*s, and this program reads " VERSION
                        ": use the same release at both ends",
                        (int)n, *p);
    }
    *p += 2;
    for (int i = 0; i < 16; i++, *p += 2) {
        int hi = record_digit((*p)[0], 16), lo = hi < 0 ? -1 : record_digit((*p)[1], 16);

        if (lo < 0) return gw_error(-EINVAL, "record: the address is not 32 hexadecimal digits");
        e->gid[i] = (uint8_t)(hi << 4 | lo);
    }
    if (!small(p, 16, 0xffffff, &e->qpn) || !small(p, 16, 0xffffff, &e->psn) ||
        !small(p, 10, 4096, &e->mtu) || !small(p, 10, 0xffff, &e->lid) || e->qpn < 2 || e->mtu < 256)
        return gw_error(-EINVAL, "record: a number is missing or out of range");
    return 0;
}

static int parse_region(const char **p, struct gw_region *g)
{
    if (*(*p)++ != ':' || !record_number(p, 16, UINT64_MAX, &g->addr) || *(*p)++ != ':' ||
        !record_number(p, 16, UINT64_MAX, &g->length) || !small(p, 16, UINT32_MAX, &g->rkey) || !g->length ||
        g->addr + (g->length - 1) < g->addr)
        return gw_error(-EINVAL, "record: the memory region is malformed or out of range");
    return 0;
}

static int at_end(const char *p)
{
    return *p ? gw_error(-EINVAL, "record: there is something after its end") : 0;
}

int gw_endpoint_parse(const char *text, struct gw_endpoint *ep)
{
    struct gw_endpoint e;
    int err = parse_endpoint(&text, &e);

    if (!err) err = at_end(text);
    if (!err) *ep = e;
    return err;
}

int gw_record_parse(const char *text, struct gw_record *record)
{
    struct gw_record r;
    int err;

    memset(&r, 0, sizeof(r));
    err = parse_endpoint(&text, &r.ep);
    if (!err && *text) err = parse_region(&text, &r.region);
    if (!err) err = at_end(text);
    if (!err) *record = r;
    return err;
}
