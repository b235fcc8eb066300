/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the headers of RoCEv2 packets. */
#include "src/roce/hdr.h"

#include <stdio.h>

#define F(x)               ROCE_F_##x
#define REQ                (F(VALID) | F(REQUEST))
#define RESP               (F(VALID) | F(RESPONSE))
#define HAS(flags, x, len) ((flags)&ROCE_F_##x ? (len) : 0)
#define HDR_LEN(f)                                                                                           \
    (ROCE_BTH_LEN + HAS(f, RETH, ROCE_RETH_LEN) + HAS(f, AETH, ROCE_AETH_LEN) +                              \
     HAS(f, ATOMICETH, ROCE_ATOMICETH_LEN) + HAS(f, ATOMICACK, ROCE_ATOMICACKETH_LEN) +                      \
     HAS(f, IMM, ROCE_IMMDT_LEN) + HAS(f, IETH, ROCE_IETH_LEN) + HAS(f, DETH, ROCE_DETH_LEN) +               \
     HAS(f, XRCETH, ROCE_XRCETH_LEN) + HAS(f, MASKETH, ROCE_MASKETH_LEN))
#define OP(name, flags)                                                                                      \
    {                                                                                                        \
        (flags), HDR_LEN(flags), name                                                                        \
    }
#define SEND  (REQ | F(SEND) | F(PAYLOAD))
#define WRITE (REQ | F(WRITE) | F(PAYLOAD))

/* clang-format off */
/* SEND and WRITE exist for all connected services. x: what their packets have besides. */
#define SEND_AND_WRITE(svc, prefix, x)                                                                       \
    [svc | ROCE_SEND_FIRST] = OP(prefix "SEND_FIRST", SEND | (x) | F(FIRST)),                                \
    [svc | ROCE_SEND_MIDDLE] = OP(prefix "SEND_MIDDLE", SEND | (x) | F(MIDDLE)),                             \
    [svc | ROCE_SEND_LAST] = OP(prefix "SEND_LAST", SEND | (x) | F(LAST)),                                   \
    [svc | ROCE_SEND_LAST_IMM] = OP(prefix "SEND_LAST_IMM", SEND | (x) | F(LAST) | F(IMM)),                  \
    [svc | ROCE_SEND_ONLY] = OP(prefix "SEND_ONLY", SEND | (x) | F(ONLY)),                                   \
    [svc | ROCE_SEND_ONLY_IMM] = OP(prefix "SEND_ONLY_IMM", SEND | (x) | F(ONLY) | F(IMM)),                  \
    [svc | ROCE_WRITE_FIRST] = OP(prefix "WRITE_FIRST", WRITE | (x) | F(FIRST) | F(RETH)),                   \
    [svc | ROCE_WRITE_MIDDLE] = OP(prefix "WRITE_MIDDLE", WRITE | (x) | F(MIDDLE)),                          \
    [svc | ROCE_WRITE_LAST] = OP(prefix "WRITE_LAST", WRITE | (x) | F(LAST)),                                \
    [svc | ROCE_WRITE_LAST_IMM] = OP(prefix "WRITE_LAST_IMM", WRITE | (x) | F(LAST) | F(IMM)),               \
    [svc | ROCE_WRITE_ONLY] = OP(prefix "WRITE_ONLY", WRITE | (x) | F(ONLY) | F(RETH)),                      \
    [svc | ROCE_WRITE_ONLY_IMM] = OP(prefix "WRITE_ONLY_IMM", WRITE | (x) | F(ONLY) | F(RETH) | F(IMM))
#define RELIABLE(svc, prefix, x)                                                                             \
    SEND_AND_WRITE(svc, prefix, x),                                                                          \
    [svc | ROCE_READ_REQ] = OP(prefix "READ_REQ", REQ | (x) | F(READ) | F(ONLY) | F(RETH)),                  \
    [svc | ROCE_READ_RESP_FIRST] =                                                                           \
        OP(prefix "READ_RESP_FIRST", RESP | F(READ) | F(FIRST) | F(AETH) | F(PAYLOAD)),                      \
    [svc | ROCE_READ_RESP_MIDDLE] = OP(prefix "READ_RESP_MIDDLE", RESP | F(READ) | F(MIDDLE) | F(PAYLOAD)),  \
    [svc | ROCE_READ_RESP_LAST] =                                                                            \
        OP(prefix "READ_RESP_LAST", RESP | F(READ) | F(LAST) | F(AETH) | F(PAYLOAD)),                        \
    [svc | ROCE_READ_RESP_ONLY] =                                                                            \
        OP(prefix "READ_RESP_ONLY", RESP | F(READ) | F(ONLY) | F(AETH) | F(PAYLOAD)),                        \
    [svc | ROCE_ACK] = OP(prefix "ACK", RESP | F(ONLY) | F(AETH)),                                           \
    [svc | ROCE_ATOMIC_ACK] = OP(prefix "ATOMIC_ACK", RESP | F(ATOMIC) | F(ONLY) | F(AETH) | F(ATOMICACK)),  \
    [svc | ROCE_COMPARE_SWAP] = OP(prefix "COMPARE_SWAP", REQ | (x) | F(ATOMIC) | F(ONLY) | F(ATOMICETH)),   \
    [svc | ROCE_FETCH_ADD] = OP(prefix "FETCH_ADD", REQ | (x) | F(ATOMIC) | F(ONLY) | F(ATOMICETH)),         \
    [svc | ROCE_SEND_LAST_INV] = OP(prefix "SEND_LAST_INV", SEND | (x) | F(LAST) | F(IETH)),                 \
    [svc | ROCE_SEND_ONLY_INV] = OP(prefix "SEND_ONLY_INV", SEND | (x) | F(ONLY) | F(IETH))
#define MASKED(xrc, prefix, x)                                                                               \
    [xrc | ROCE_MASKED_COMPARE_SWAP] = OP(                                                                   \
        prefix "MASKED_COMPARE_SWAP", REQ | (x) | F(ATOMIC) | F(ONLY) | F(ATOMICETH) | F(MASKETH)),          \
    [xrc | ROCE_MASKED_FETCH_ADD] =                                                                          \
        OP(prefix "MASKED_FETCH_ADD", REQ | (x) | F(ATOMIC) | F(ONLY) | F(ATOMICETH))
/* clang-format on */

const struct roce_op roce_ops[256] = {
    RELIABLE(ROCE_RC, "", 0),
    RELIABLE(ROCE_XRC, "XRC_", F(XRCETH)),
    MASKED(0, "", 0),
    MASKED(ROCE_OWN_XRC, "XRC_", F(XRCETH)),
    SEND_AND_WRITE(ROCE_UC, "UC_", 0),
    [ROCE_UD_SEND_ONLY] = OP("UD_SEND_ONLY", SEND | F(ONLY) | F(DETH)),
    [ROCE_UD_SEND_ONLY_IMM] = OP("UD_SEND_ONLY_IMM", SEND | F(ONLY) | F(DETH) | F(IMM)),
    [ROCE_CNP] = OP("CNP", F(VALID) | F(ONLY) | F(PAYLOAD)),
};

const char *roce_why_text(enum roce_why why)
{
    switch (why) {
    case ROCE_OK: return "ok";
    case ROCE_SHORT: return "the packet is shorter than its headers";
    case ROCE_BAD_OPCODE: return "unknown opcode";
    case ROCE_BAD_VERSION: return "the transport header version is not 0";
    case ROCE_BAD_PAD: return "the pad count does not fit the packet's length";
    case ROCE_HAS_PAYLOAD: return "payload after an opcode that has none";
    case ROCE_TOO_LONG: return "more payload than the largest MTU";
    }
    return "unknown reason";
}

/* Big-endian fields of n bytes, in the order in which they lie in the packet. */
static uint64_t hdr_take(const uint8_t **p, unsigned n)
{
    uint64_t v = 0;

    while (n--) v = v << 8 | *(*p)++;
    return v;
}

static void hdr_give(uint8_t **p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) (*p)[i] = (uint8_t)(v >> 8 * (n - 1 - i));
    *p += n;
}

/* An immediate stays in network order: verbs hand it to the program as it was on the wire. */
static uint32_t swap32(uint32_t v)
{
    return __builtin_bswap32(v);
}

static void parse_bth(const uint8_t *p, struct roce_hdr *h)
{
    *h = (struct roce_hdr){.opcode = p[0]};
    h->solicited = p[1] >> 7;
    h->migreq = p[1] >> 6 & 1;
    h->pad = p[1] >> 4 & 3;
    h->pkey = (uint16_t)(p[2] << 8 | p[3]);
    h->fecn = p[4] >> 7;
    h->becn = p[4] >> 6 & 1;
    h->dqpn = (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7];
    h->ackreq = p[8] >> 7;
    h->psn = (uint32_t)p[9] << 16 | (uint32_t)p[10] << 8 | p[11];
}

/* The extended headers, in the order in which they follow each other in every opcode that has them. */
static void parse_extended(const uint8_t *p, uint32_t f, struct roce_hdr *h)
{
    if (f & F(DETH)) {
        h->qkey = (uint32_t)hdr_take(&p, 4);
        h->sqpn = (uint32_t)hdr_take(&p, 4) & 0xffffff;
    }
    if (f & F(XRCETH)) h->xrcsrq = (uint32_t)hdr_take(&p, 4) & 0xffffff;
    if (f & (F(RETH) | F(ATOMICETH))) {
        h->va = hdr_take(&p, 8);
        h->rkey = (uint32_t)hdr_take(&p, 4);
    }
    if (f & F(RETH)) h->dlen = (uint32_t)hdr_take(&p, 4);
    if (f & F(ATOMICETH)) {
        h->swap_or_add = hdr_take(&p, 8);
        h->compare = hdr_take(&p, 8);
    }
    if (f & F(MASKETH)) {
        h->swap_mask = hdr_take(&p, 8);
        h->compare_mask = hdr_take(&p, 8);
    }
    if (f & F(AETH)) {
        h->syndrome = (uint8_t)hdr_take(&p, 1);
        h->msn = (uint32_t)hdr_take(&p, 3);
    }
    if (f & F(ATOMICACK)) h->orig = hdr_take(&p, 8);
    if (f & (F(IMM) | F(IETH))) h->imm_be = swap32((uint32_t)hdr_take(&p, 4));
}

int roce_parse(const uint8_t *p, size_t len, struct roce_hdr *h, uint32_t *payload_len)
{
    const struct roce_op *op;
    size_t rest;

    if (len < ROCE_MIN_PACKET) return -ROCE_SHORT;
    if (p[1] & 0xf) return -ROCE_BAD_VERSION;
    op = &roce_ops[p[0]];
    if (!op->flags) return -ROCE_BAD_OPCODE;
    if (len < (size_t)op->hdr_len + ROCE_ICRC_LEN) return -ROCE_SHORT;
    parse_bth(p, h);
    rest = len - op->hdr_len - ROCE_ICRC_LEN;
    if (rest & 3 || h->pad > rest) return -ROCE_BAD_PAD;
    if (rest && !(op->flags & F(PAYLOAD))) return -ROCE_HAS_PAYLOAD;
    if (rest > ROCE_MAX_MTU) return -ROCE_TOO_LONG;
    parse_extended(p + ROCE_BTH_LEN, op->flags, h);
    *payload_len = (uint32_t)rest - h->pad;
    return op->hdr_len;
}

static void pack_extended(uint8_t *p, uint32_t f, const struct roce_hdr *h)
{
    if (f & F(DETH)) {
        hdr_give(&p, h->qkey, 4);
        hdr_give(&p, h->sqpn & 0xffffff, 4);
    }
    if (f & F(XRCETH)) hdr_give(&p, h->xrcsrq & 0xffffff, 4);
    if (f & (F(RETH) | F(ATOMICETH))) {
        hdr_give(&p, h->va, 8);
        hdr_give(&p, h->rkey, 4);
    }
    if (f & F(RETH)) hdr_give(&p, h->dlen, 4);
    if (f & F(ATOMICETH)) {
        hdr_give(&p, h->swap_or_add, 8);
        hdr_give(&p, h->compare, 8);
    }
    if (f & F(MASKETH)) {
        hdr_give(&p, h->swap_mask, 8);
        hdr_give(&p, h->compare_mask, 8);
    }
    if (f & F(AETH)) {
        hdr_give(&p, h->syndrome, 1);
        hdr_give(&p, h->msn, 3);
    }
    if (f & F(ATOMICACK)) hdr_give(&p, h->orig, 8);
    if (f & (F(IMM) | F(IETH))) hdr_give(&p, swap32(h->imm_be), 4);
}

uint32_t roce_pack(uint8_t *p, const struct roce_hdr *h)
{
    const struct roce_op *op = &roce_ops[h->opcode];

    if (!op->flags) return 0;
    p[0] = h->opcode;
    p[1] = (uint8_t)(h->solicited << 7 | h->migreq << 6 | (h->pad & 3) << 4);
    p[2] = (uint8_t)(h->pkey >> 8);
    p[3] = (uint8_t)h->pkey;
    p[4] = (uint8_t)(h->fecn << 7 | h->becn << 6);
    p[5] = (uint8_t)(h->dqpn >> 16);
    p[6] = (uint8_t)(h->dqpn >> 8);
    p[7] = (uint8_t)h->dqpn;
    p[8] = (uint8_t)(h->ackreq << 7);
    p[9] = (uint8_t)(h->psn >> 16);
    p[10] = (uint8_t)(h->psn >> 8);
    p[11] = (uint8_t)h->psn;
    pack_extended(p + ROCE_BTH_LEN, op->flags, h);
    return op->hdr_len;
}

void roce_describe(const struct roce_hdr *h, uint32_t payload_len, char *buf, size_t size)
{
    const struct roce_op *op = &roce_ops[h->opcode];
    int n = snprintf(buf, size, "%s qpn %06x psn %u len %u%s%s", op->flags ? op->name : "unknown opcode",
                     h->dqpn, h->psn, payload_len, h->ackreq ? " ack" : "", h->solicited ? " solicited" : "");

#define MORE(...) (n += n >= 0 && (size_t)n < size ? snprintf(buf + n, size - (size_t)n, __VA_ARGS__) : 0)
    if (op->flags & F(DETH)) MORE(" from %06x qkey %x", h->sqpn, h->qkey);
    if (op->flags & F(XRCETH)) MORE(" srq %06x", h->xrcsrq);
    if (op->flags & (F(RETH) | F(ATOMICETH))) MORE(" va %llx rkey %x", (unsigned long long)h->va, h->rkey);
    if (op->flags & F(RETH)) MORE(" dlen %u", h->dlen);
    if (op->flags & F(AETH)) MORE(" syndrome %02x msn %u", h->syndrome, h->msn);
    if (op->flags & (F(IMM) | F(IETH))) MORE(" imm %08x", swap32(h->imm_be));
#undef MORE
}
