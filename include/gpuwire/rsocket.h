/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rsocket.h: the rsocket protocol, version 1, as librdmacm's rsockets speak it: pure functions, no state.
 *
 * Each side offers, in rdma_cm's private data while they connect, a receive buffer of two halves, of which it
 * names the first, and a table of two entries. A stream is a series of RDMA writes with an immediate into the
 * peer's halves, in turn. When the owner of a half has read it, the peer may fill it again. So the owner
 * writes the half's address, key and length into the next entry of the *peer's* table, beginning with entry
 * 1. The three upper bits of an immediate say what the write is, the others are a number.
 *
 *   0 data     Bytes of this write.
 *   4 credit   How many data writes the peer may have sent in all, mod 2^16. Alone, or with a table entry.
 *   6 iomap    Entry `number` of the table for direct access, which is in the message. It takes a credit, as
 *              data do.
 *   7 control  The number 0 is a disconnect: neither side sends any more. With 1 it is a keep-alive. With 2
 *              it is a shutdown: the sender sends no more.
 *
 * Direct access: after its table a side may offer a second one. It says how many entries that has when it
 * connects. The peer writes there which of its memory may be written to, and its offset: `length` bytes from
 * `offset` on lie at `addr`.
 *
 * Everything that comes from a peer passes through the two parsers here. Any thread may call any of this;
 * lengths are bytes.
 */
#ifndef GPUWIRE_RSOCKET_H
#define GPUWIRE_RSOCKET_H

#include <errno.h>
#include <string.h>

#include <gpuwire/fn.h>

enum gw_rs_op { GW_RS_DATA = 0, GW_RS_CREDIT = 4, GW_RS_IOMAP = 6, GW_RS_CONTROL = 7 };
enum gw_rs_control { GW_RS_DISCONNECT = 0, GW_RS_KEEPALIVE = 1, GW_RS_SHUTDOWN = 2 };

#define GW_RS_NUMBER_MAX 0x1fffffffu /* what an immediate has room for besides its kind */
#define GW_RS_TABLE      2u          /* entries of a table */

/* A stretch of a peer's memory, and an entry of the tables. */
struct gw_rs_sge {
    uint64_t addr;
    uint32_t key;
    uint32_t length;
};

/* An entry of the table for direct access. */
struct gw_rs_map {
    uint64_t offset;
    struct gw_rs_sge at;
};

#define GW_RS_MAPS_MAX 128u /* entries that a side of ours offers or uses */

/* A write's immediate, in host order. number: up to GW_RS_NUMBER_MAX. */
GW_FN uint32_t gw_rs_imm(enum gw_rs_op op, uint32_t number)
{
    return (uint32_t)op << 29 | (number & GW_RS_NUMBER_MAX);
}

/* The meaning of a write. */
enum gw_rs_kind {
    GW_RS_BYTES,        /* number of them; at least 1 */
    GW_RS_CREDITS,      /* number: the count, mod 2^16 */
    GW_RS_CREDITS_HALF, /* the same, and the next table entry has been written */
    GW_RS_MAPPED,       /* number: the entry of the table for direct access that has been written */
    GW_RS_NOTHING,
    GW_RS_END,   /* the peer sends no more */
    GW_RS_CLOSED /* it does not receive, either */
};

struct gw_rs_msg {
    enum gw_rs_kind kind;
    uint32_t number;
};

/* Parses a write's immediate, given the number of bytes it wrote. 0, or -EPROTO: no peer may say that. */
GW_FN int gw_rs_parse(uint32_t imm, uint32_t bytes, struct gw_rs_msg *msg)
{
    uint32_t number = imm & GW_RS_NUMBER_MAX;

    msg->number = number;
    switch (imm >> 29) {
    case GW_RS_DATA: msg->kind = GW_RS_BYTES; return number && number == bytes ? 0 : -EPROTO;
    case GW_RS_CREDIT:
        msg->kind = bytes ? GW_RS_CREDITS_HALF : GW_RS_CREDITS;
        msg->number = number & 0xffff;
        return !bytes || bytes == sizeof(struct gw_rs_sge) ? 0 : -EPROTO;
    case GW_RS_IOMAP: msg->kind = GW_RS_MAPPED; return bytes == sizeof(struct gw_rs_map) ? 0 : -EPROTO;
    case GW_RS_CONTROL:
        msg->kind = number == GW_RS_DISCONNECT ? GW_RS_CLOSED
                    : number == GW_RS_SHUTDOWN ? GW_RS_END
                                               : GW_RS_NOTHING;
        return !bytes && number <= GW_RS_SHUTDOWN ? 0 : -EPROTO;
    default: return -EPROTO;
    }
}

/* ---- private data ------------------------------------------------------------------------------------- */

#define GW_RS_CONN_BYTES 40u

/* Each side tells the other this while they connect. Host order. */
struct gw_rs_conn {
    struct gw_rs_sge half;  /* the first half of the receive buffer */
    struct gw_rs_sge table; /* its length counts entries */
    uint32_t credits;       /* data writes that may come before the first credit */
    uint32_t maps;          /* entries of the table for direct access */
    uint32_t swap;          /* the peer is a big-endian machine: so must table entries be that it is given */
};

GW_FN void gw_rs_put_(uint8_t *to, uint64_t v, uint32_t bytes)
{
    uint32_t i;

    for (i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

GW_FN uint64_t gw_rs_get_(const uint8_t *from, uint32_t bytes)
{
    uint64_t v = 0;
    uint32_t i;

    for (i = 0; i < bytes; i++) v = v << 8 | from[i];
    return v;
}

GW_FN void gw_rs_put_sge_(uint8_t *to, const struct gw_rs_sge *sge)
{
    gw_rs_put_(to, sge->addr, 8);
    gw_rs_put_(to + 8, sge->key, 4);
    gw_rs_put_(to + 12, sge->length, 4);
}

GW_FN void gw_rs_get_sge_(const uint8_t *from, struct gw_rs_sge *sge)
{
    sge->addr = gw_rs_get_(from, 8);
    sge->key = (uint32_t)gw_rs_get_(from + 8, 4);
    sge->length = (uint32_t)gw_rs_get_(from + 12, 4);
}

/* May a peer offer this half? 1 or 0: its length must fit into an immediate. */
GW_FN int gw_rs_good_half(const struct gw_rs_sge *half)
{
    return half->length && half->length <= GW_RS_NUMBER_MAX;
}

/* A count in a byte: up to 128 as it is, more in units of 256. */
GW_FN uint8_t gw_rs_scale_(uint32_t n)
{
    return (uint8_t)(n <= 128 ? n : 128 | n >> 8);
}

GW_FN uint32_t gw_rs_unscale_(uint8_t b)
{
    return b <= 128 ? b : (b & 127u) << 8;
}

/* version 1, flags (1: big-endian, 2: knows of direct access), credits, 3 bytes, entries for direct access,
 * table, half. */
GW_FN void gw_rs_conn_pack(const struct gw_rs_conn *c, uint8_t out[GW_RS_CONN_BYTES])
{
    memset(out, 0, GW_RS_CONN_BYTES);
    out[0] = 1;
    out[1] = (uint8_t)(2 | (c->swap ? 1 : 0));
    gw_rs_put_(out + 2, c->credits, 2);
    out[7] = gw_rs_scale_(c->maps);
    gw_rs_put_sge_(out + 8, &c->table);
    gw_rs_put_sge_(out + 24, &c->half);
}

/* 0; -EPROTO: too short, or not what a peer can mean; -EPROTONOSUPPORT: another version. */
GW_FN int gw_rs_conn_unpack(const void *data, uint64_t len, struct gw_rs_conn *c)
{
    const uint8_t *p = (const uint8_t *)data;

    if (!p || len < GW_RS_CONN_BYTES) return -EPROTO;
    if (p[0] != 1) return -EPROTONOSUPPORT;
    c->swap = p[1] & 1;
    c->credits = (uint32_t)gw_rs_get_(p + 2, 2);
    c->maps = p[1] & 2 ? gw_rs_unscale_(p[7]) : 0;
    gw_rs_get_sge_(p + 8, &c->table);
    gw_rs_get_sge_(p + 24, &c->half);
    return c->credits && c->table.length == GW_RS_TABLE && gw_rs_good_half(&c->half) ? 0 : -EPROTO;
}

/* Entries as a peer of the other byte order reads them. */
GW_FN struct gw_rs_sge gw_rs_swapped(const struct gw_rs_sge *sge)
{
    struct gw_rs_sge s;

    s.addr = gw_be64(sge->addr);
    s.key = gw_be32(sge->key);
    s.length = gw_be32(sge->length);
    return s;
}

/* The same of an entry of the table of mappings. */
GW_FN struct gw_rs_map gw_rs_map_swapped(const struct gw_rs_map *map)
{
    struct gw_rs_map m;

    m.offset = gw_be64(map->offset);
    m.at = gw_rs_swapped(&map->at);
    return m;
}

#endif
