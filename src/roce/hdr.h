/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hdr.h: RoCEv2 packets, from the base transport header to the end of the payload.
 *
 * A RoCEv2 packet is the payload of a UDP datagram to port 4791: BTH, extended headers that the opcode
 * implies, payload padded to 4 bytes, 4 bytes ICRC. Layouts and opcodes: InfiniBand architecture volume 1,
 * chapter 9, and annex A17. Pure functions, any thread. Parsers never read past the length given, and take
 * any bytes at all.
 */
#ifndef GW_SRC_ROCE_HDR_H
#define GW_SRC_ROCE_HDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROCE_UDP_PORT = 4791,
    ROCE_BTH_LEN = 12,
    ROCE_RETH_LEN = 16,
    ROCE_ATOMICETH_LEN = 28,
    ROCE_AETH_LEN = 4,
    ROCE_ATOMICACKETH_LEN = 8,
    ROCE_IMMDT_LEN = 4,
    ROCE_IETH_LEN = 4,
    ROCE_DETH_LEN = 8,
    ROCE_XRCETH_LEN = 4,
    ROCE_MASKETH_LEN = 16,
    ROCE_ICRC_LEN = 4,
    /* the longest chain of headers: 60 */
    ROCE_MAX_HDR = ROCE_BTH_LEN + ROCE_XRCETH_LEN + ROCE_ATOMICETH_LEN + ROCE_MASKETH_LEN,
    ROCE_MIN_PACKET = ROCE_BTH_LEN + ROCE_ICRC_LEN,
    ROCE_MAX_MTU = 4096,
    ROCE_DEFAULT_PKEY = 0xffff,
};

/* The two lowest bits of an IP header's traffic class: may be marked, and is (RFC 3168). */
enum { ROCE_ECT = 2, ROCE_CE = 3 };

/* BTH opcodes. The upper three bits name the service, the lower five the operation. XRC has all that RC has
 * (annex A14): its requests say, in a header of their own, whose shared receive queue they are for. */
enum roce_opcode {
    ROCE_RC = 0x00,
    ROCE_UC = 0x20,
    ROCE_UD = 0x60,
    ROCE_XRC = 0xa0,
    ROCE_SERVICE_MASK = 0xe0,

    ROCE_SEND_FIRST = 0x00,
    ROCE_SEND_MIDDLE = 0x01,
    ROCE_SEND_LAST = 0x02,
    ROCE_SEND_LAST_IMM = 0x03,
    ROCE_SEND_ONLY = 0x04,
    ROCE_SEND_ONLY_IMM = 0x05,
    ROCE_WRITE_FIRST = 0x06,
    ROCE_WRITE_MIDDLE = 0x07,
    ROCE_WRITE_LAST = 0x08,
    ROCE_WRITE_LAST_IMM = 0x09,
    ROCE_WRITE_ONLY = 0x0a,
    ROCE_WRITE_ONLY_IMM = 0x0b,
    ROCE_READ_REQ = 0x0c,
    ROCE_READ_RESP_FIRST = 0x0d,
    ROCE_READ_RESP_MIDDLE = 0x0e,
    ROCE_READ_RESP_LAST = 0x0f,
    ROCE_READ_RESP_ONLY = 0x10,
    ROCE_ACK = 0x11,
    ROCE_ATOMIC_ACK = 0x12,
    ROCE_COMPARE_SWAP = 0x13,
    ROCE_FETCH_ADD = 0x14,
    ROCE_SEND_LAST_INV = 0x16,
    ROCE_SEND_ONLY_INV = 0x17,
    ROCE_UD_SEND_ONLY = 0x64,
    ROCE_UD_SEND_ONLY_IMM = 0x65,
    ROCE_CNP = 0x81, /* congestion notification */

    /* From 0xc0 on opcodes are each manufacturer's own. These are this project's: with the lower bits of what
     * they extend, and bit 5 for XRC. */
    ROCE_OWN = 0xc0,
    ROCE_OWN_XRC = 0x20,
    ROCE_MASKED_COMPARE_SWAP = ROCE_OWN | ROCE_COMPARE_SWAP,
    ROCE_MASKED_FETCH_ADD = ROCE_OWN | ROCE_FETCH_ADD,
};

/* The properties of an opcode. */
enum roce_op_flags {
    ROCE_F_VALID = 1 << 0, /* a known opcode */
    ROCE_F_FIRST = 1 << 1,
    ROCE_F_MIDDLE = 1 << 2,
    ROCE_F_LAST = 1 << 3,
    ROCE_F_ONLY = 1 << 4,
    ROCE_F_RETH = 1 << 5,
    ROCE_F_AETH = 1 << 6,
    ROCE_F_ATOMICETH = 1 << 7,
    ROCE_F_ATOMICACK = 1 << 8,
    ROCE_F_IMM = 1 << 9,
    ROCE_F_IETH = 1 << 10,
    ROCE_F_DETH = 1 << 11,
    ROCE_F_PAYLOAD = 1 << 12,  /* may carry payload (first and middle must fill the MTU) */
    ROCE_F_REQUEST = 1 << 13,  /* goes to the responder */
    ROCE_F_RESPONSE = 1 << 14, /* goes to the requester */
    ROCE_F_SEND = 1 << 15,
    ROCE_F_WRITE = 1 << 16,
    ROCE_F_READ = 1 << 17,
    ROCE_F_ATOMIC = 1 << 18,
    ROCE_F_XRCETH = 1 << 19,
    ROCE_F_MASKETH = 1 << 20,
    ROCE_F_STARTS = ROCE_F_FIRST | ROCE_F_ONLY,
    ROCE_F_ENDS = ROCE_F_LAST | ROCE_F_ONLY,
};

struct roce_op {
    uint32_t flags;   /* 0 for an opcode that is not known */
    uint8_t hdr_len;  /* BTH and extended headers, bytes */
    const char *name; /* "WRITE_ONLY_IMM"; NULL for an opcode that is not known */
};
extern const struct roce_op roce_ops[256];

static inline uint32_t roce_flags(uint8_t opcode)
{
    return roce_ops[opcode].flags;
}

static inline bool roce_is_own(uint8_t opcode)
{
    return opcode >= ROCE_OWN;
}

/* The service that an opcode belongs to: ROCE_RC, _UC, _UD, _XRC, or what is none. */
static inline uint8_t roce_service(uint8_t opcode)
{
    if (roce_is_own(opcode)) return opcode & ROCE_OWN_XRC ? ROCE_XRC : ROCE_RC;
    return opcode & ROCE_SERVICE_MASK;
}

/* All headers a packet can have; fields that its opcode lacks are 0 after a parse and ignored when packing.
 */
struct roce_hdr {
    /* BTH */
    uint8_t opcode;
    bool solicited;
    bool migreq; /* set when sending, ignored when receiving */
    bool fecn, becn;
    bool ackreq;
    uint8_t pad; /* 0 … 3 bytes after the payload */
    uint16_t pkey;
    uint32_t dqpn;
    uint32_t psn;
    uint32_t xrcsrq; /* XRCETH: number of the shared receive queue */
    /* RETH, AtomicETH */
    uint64_t va;
    uint32_t rkey;
    uint32_t dlen;
    uint64_t swap_or_add, compare;    /* MASKED_FETCH_ADD: compare is the fields' boundaries */
    uint64_t swap_mask, compare_mask; /* MaskETH, after AtomicETH */
    /* AETH, AtomicAckETH */
    uint8_t syndrome;
    uint32_t msn;
    uint64_t orig;
    /* ImmDt, IETH: as on the wire and in a CQE; DETH */
    uint32_t imm_be;
    uint32_t qkey;
    uint32_t sqpn;
};

/* Why a packet was not understood. roce_why_text says it in words. */
enum roce_why {
    ROCE_OK,
    ROCE_SHORT,       /* shorter than BTH and ICRC, or than the opcode's headers */
    ROCE_BAD_OPCODE,  /* unknown opcode */
    ROCE_BAD_VERSION, /* transport header version not 0 */
    ROCE_BAD_PAD,     /* pad longer than the payload, or the length is no multiple of 4 */
    ROCE_HAS_PAYLOAD, /* payload where the opcode has none */
    ROCE_TOO_LONG,    /* payload above 4096 bytes */
};
const char *roce_why_text(enum roce_why why);

/*
 * Parses the UDP payload of len bytes at p, ICRC included (but not checked: icrc.h). On success returns the
 * headers' length, which is where the payload starts, and sets *payload_len (pad and ICRC taken off).
 * Otherwise a negative enum roce_why; *h is then undefined.
 */
int roce_parse(const uint8_t *p, size_t len, struct roce_hdr *h, uint32_t *payload_len);

/*
 * Writes BTH and the opcode's extended headers to p, which has room for ROCE_MAX_HDR bytes. Returns their
 * length, or 0 for an opcode that is not known. Numbers are cut to their fields' widths. The caller appends
 * payload, h->pad zero bytes and ICRC.
 */
uint32_t roce_pack(uint8_t *p, const struct roce_hdr *h);

/* One line for logs and tests: "WRITE_ONLY_IMM qpn 12 psn 5 len 64 …". Always terminates buf. */
void roce_describe(const struct roce_hdr *h, uint32_t payload_len, char *buf, size_t size);

/* Bytes of pad that a payload of len bytes needs. */
static inline uint8_t roce_pad(uint32_t len)
{
    return (uint8_t)(-len & 3);
}

#endif
