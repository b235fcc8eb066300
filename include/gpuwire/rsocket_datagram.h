/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rsocket_datagram.h: the format of rsocket's datagrams, version 1, as librdmacm's rsockets speak it: pure
 * functions, no state.
 *
 * Each datagram socket has a UD queue pair and, at the same address and port, a UDP socket. As long as a
 * peer's queue pair is not known, datagrams for it go by UDP, after a *note* that names the sender's queue
 * pair. The peer answers a note that brings data with one that brings none. From then on either side sends to
 * the other by UD, to the address that the note came from. Before the payload of a UD message stands a
 * *head*: the sender's address.
 *
 *   note  Tag, 4 bytes of 0x55; version 4 or 6; op 0 (data) or 7 (no data); its length, 16 or 28; 0; queue
 *         pair; address.
 *
 *   head  Version 4 or 6; its length, 8 or 24; port; for 6: flow label, here 0; address.
 *
 * Numbers are big-endian. Everything that comes from a peer passes through the two parsers here. Any thread
 * may call any of this; lengths are bytes.
 */
#ifndef GPUWIRE_RSOCKET_DATAGRAM_H
#define GPUWIRE_RSOCKET_DATAGRAM_H

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <gpuwire/rsocket.h>

enum {
    GW_DATAGRAM_HEAD_MAX = 24,
    GW_DATAGRAM_NOTE_MAX = 28,
    GW_DATAGRAM_MESSAGE = 2048,    /* what a peer has room for, head included */
    GW_DATAGRAM_QKEY = 0x01234567, /* rdma_cm's, of RDMA_PS_UDP */
};

/* An address and port, in a form that can be compared. The first word has the version and, from bit 16 on,
 * the port as in memory. IPv4's four bytes lie in the lower half of w[1]. */
struct gw_datagram_addr {
    uint64_t w[3];
};

/* 1: the same address and port; 0: not. Any thread; it reads the two and orders nothing. */
GW_FN int gw_datagram_same(const struct gw_datagram_addr *a, const struct gw_datagram_addr *b)
{
    return !((a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]));
}

/* Bytes of the head that an address makes. */
GW_FN uint32_t gw_datagram_head_bytes(const struct gw_datagram_addr *a)
{
    return (a->w[0] & 0xff) == 4 ? 8 : GW_DATAGRAM_HEAD_MAX;
}

/* Of `bytes` bytes that may be a struct sockaddr_in or sockaddr_in6. 0, or -EAFNOSUPPORT. */
GW_FN int gw_datagram_addr_of(const void *sockaddr, uint32_t bytes, struct gw_datagram_addr *a)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    uint16_t family = AF_UNSPEC;

    if (bytes >= sizeof(family)) memcpy(&family, sockaddr, sizeof(family));
    a->w[1] = a->w[2] = 0;
    if (family == AF_INET && bytes >= sizeof(four)) {
        memcpy(&four, sockaddr, sizeof(four));
        a->w[0] = 4 | (uint64_t)four.sin_port << 16;
        a->w[1] = four.sin_addr.s_addr;
        return 0;
    }
    if (family != AF_INET6 || bytes < sizeof(six)) return -EAFNOSUPPORT;
    memcpy(&six, sockaddr, sizeof(six));
    a->w[0] = 6 | (uint64_t)six.sin6_port << 16;
    memcpy(&a->w[1], &six.sin6_addr, 16);
    return 0;
}

/* The other way round; returns its size. `to` has room for a struct sockaddr_in6. */
GW_FN uint32_t gw_datagram_addr_tell(const struct gw_datagram_addr *a, void *to)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    if ((a->w[0] & 0xff) == 4) {
        memset(&four, 0, sizeof(four));
        four.sin_family = AF_INET;
        four.sin_port = (uint16_t)(a->w[0] >> 16);
        four.sin_addr.s_addr = (uint32_t)a->w[1];
        memcpy(to, &four, sizeof(four));
        return (uint32_t)sizeof(four);
    }
    memset(&six, 0, sizeof(six));
    six.sin6_family = AF_INET6;
    six.sin6_port = (uint16_t)(a->w[0] >> 16);
    memcpy(&six.sin6_addr, &a->w[1], 16);
    memcpy(to, &six, sizeof(six));
    return (uint32_t)sizeof(six);
}

/* Writes a head; returns its length. */
GW_FN uint32_t gw_datagram_head_put(const struct gw_datagram_addr *from, uint8_t out[GW_DATAGRAM_HEAD_MAX])
{
    uint32_t n = gw_datagram_head_bytes(from);
    uint16_t port = (uint16_t)(from->w[0] >> 16);

    memset(out, 0, n);
    out[0] = (uint8_t)from->w[0];
    out[1] = (uint8_t)n;
    memcpy(out + 2, &port, 2);
    memcpy(out + (n == 8 ? 4 : 8), &from->w[1], n == 8 ? 4 : 16);
    return n;
}

/* Reads the head of a message of n bytes; returns its length, or -EPROTO. */
GW_FN int gw_datagram_head_get(const uint8_t *p, uint32_t n, struct gw_datagram_addr *from)
{
    uint32_t need = n < 2 ? 0 : p[0] == 4 ? 8 : p[0] == 6 ? GW_DATAGRAM_HEAD_MAX : 0;
    uint16_t port;

    if (!need || p[1] != need || n < need) return -EPROTO;
    memcpy(&port, p + 2, 2);
    from->w[0] = p[0] | (uint64_t)port << 16;
    from->w[1] = from->w[2] = 0;
    memcpy(&from->w[1], p + (need == 8 ? 4 : 8), need == 8 ? 4 : 16);
    return (int)need;
}

struct gw_datagram_note {
    uint32_t qpn;
    uint32_t data; /* 1: a datagram's payload follows it */
};

/* Writes a note from that address; returns its length. */
GW_FN uint32_t gw_datagram_note_put(const struct gw_datagram_addr *from, const struct gw_datagram_note *note,
                                    uint8_t out[GW_DATAGRAM_NOTE_MAX])
{
    uint32_t four = (from->w[0] & 0xff) == 4, n = four ? 16 : GW_DATAGRAM_NOTE_MAX,
             qpn = gw_be32(note->qpn & 0xffffff);

    memset(out, 0x55, 4);
    out[4] = (uint8_t)from->w[0];
    out[5] = note->data ? GW_RS_DATA : GW_RS_CONTROL;
    out[6] = (uint8_t)n;
    out[7] = 0;
    memcpy(out + 8, &qpn, 4);
    memcpy(out + 12, &from->w[1], four ? 4 : 16);
    return n;
}

/*
 * Reads the note at the beginning of n bytes that came by UDP from an address of that version (4 or 6);
 * returns its length, or -EPROTO. The address in it is not looked at: the peer is where the packet came from,
 * as librdmacm has it.
 */
GW_FN int gw_datagram_note_get(const uint8_t *p, uint32_t n, uint32_t version, struct gw_datagram_note *note)
{
    uint32_t need = version == 4 ? 16 : GW_DATAGRAM_NOTE_MAX, i;

    if (n < need || p[4] != version || p[6] != need) return -EPROTO;
    for (i = 0; i < 4; i++)
        if (p[i] != 0x55) return -EPROTO;
    memcpy(&note->qpn, p + 8, 4);
    note->qpn = gw_be32(note->qpn) & 0xffffff;
    note->data = p[5] == GW_RS_DATA;
    return note->qpn > 1 ? (int)need : -EPROTO; /* 0 and 1 are the NIC's own */
}

#endif
