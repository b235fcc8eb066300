/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h: the arithmetic of RC messages: path MTU, packets of a message, packet sequence numbers, ACK
 * syndromes and timer codes. Pure functions, any thread. Source: InfiniBand architecture volume 1, chapter 9;
 * for the receiver- not-ready times table 45 there.
 */
#ifndef GW_SRC_ROCE_SEGMENT_H
#define GW_SRC_ROCE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/roce/hdr.h"

/* ---- path MTU: enum ibv_mtu 1 … 5 stands for 256 … 4096 ----------------------------------------------- */

/* 0 for a value that is no MTU. */
static inline uint32_t roce_mtu_bytes(unsigned mtu_enum)
{
    return mtu_enum >= 1 && mtu_enum <= 5 ? 128u << mtu_enum : 0;
}

/* The largest MTU of at most `bytes`; 0 below 256. */
static inline unsigned roce_mtu_enum(uint32_t bytes)
{
    unsigned e = 5;

    while (e && roce_mtu_bytes(e) > bytes) e--;
    return e;
}

/* The path MTU that fits into a network device's MTU. All headers have 80 bytes, as with Linux' rxe (1500:
 * 1024). */
static inline unsigned roce_mtu_enum_of_netdev(uint32_t netdev_mtu)
{
    return netdev_mtu < 80 ? 0 : roce_mtu_enum(netdev_mtu - 80);
}

/* ---- packet sequence numbers: 24 bits, compared as signed differences --------------------------------- */

static inline uint32_t roce_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & 0xffffff;
}

/* < 0: a is before b; 0: equal; > 0: after. The value is the distance, -2^23 … 2^23 - 1. */
static inline int32_t roce_psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

/* ---- packets of a message ----------------------------------------------------------------------------- */

/* Packets that len bytes take: at least one. Also what a READ of len bytes advances the PSN by. */
static inline uint32_t roce_packets(uint32_t len, uint32_t mtu)
{
    return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

enum roce_msg {
    ROCE_MSG_SEND,
    ROCE_MSG_SEND_IMM,
    ROCE_MSG_SEND_INV,
    ROCE_MSG_WRITE,
    ROCE_MSG_WRITE_IMM,
    ROCE_MSG_READ_RESP,
};

struct roce_seg {
    uint8_t opcode; /* RC */
    uint8_t pad;    /* bytes after the payload */
    bool first, last;
    uint32_t offset; /* of the payload in the message */
    uint32_t length; /* of the payload */
};

/* The i-th of the roce_packets(len, mtu) packets of a message. */
struct roce_seg roce_segment(enum roce_msg kind, uint32_t len, uint32_t mtu, uint32_t i);

/* ---- AETH syndrome ------------------------------------------------------------------------------------ */

enum roce_aeth {
    ROCE_AETH_ACK = 0x00,            /* lower five bits: credits */
    ROCE_AETH_ACK_NO_CREDITS = 0x1f, /* credits not reported: what a RoCE responder sends */
    ROCE_AETH_RNR = 0x20,            /* lower five bits: timer code */
    ROCE_AETH_NAK = 0x60,            /* lower five bits: enum roce_nak */
    ROCE_AETH_CLASS = 0xe0,
    ROCE_AETH_VALUE = 0x1f,
};

enum roce_nak {
    ROCE_NAK_PSN_SEQ = 0,       /* 0x60 */
    ROCE_NAK_INVALID_REQ = 1,   /* 0x61 */
    ROCE_NAK_REMOTE_ACCESS = 2, /* 0x62 */
    ROCE_NAK_REMOTE_OP = 3,     /* 0x63 */
    ROCE_NAK_INVALID_RD = 4,    /* 0x64 */
};

static inline bool roce_aeth_is_ack(uint8_t syndrome)
{
    return (syndrome & ROCE_AETH_CLASS) == ROCE_AETH_ACK;
}
static inline bool roce_aeth_is_rnr(uint8_t syndrome)
{
    return (syndrome & ROCE_AETH_CLASS) == ROCE_AETH_RNR;
}
static inline bool roce_aeth_is_nak(uint8_t syndrome)
{
    return (syndrome & ROCE_AETH_CLASS) == ROCE_AETH_NAK;
}
static inline uint8_t roce_aeth_rnr(unsigned timer_code)
{
    return (uint8_t)(ROCE_AETH_RNR | (timer_code & ROCE_AETH_VALUE));
}
static inline uint8_t roce_aeth_nak(enum roce_nak code)
{
    return (uint8_t)(ROCE_AETH_NAK | ((unsigned)code & ROCE_AETH_VALUE));
}

/* ---- timers ------------------------------------------------------------------------------------------- */

/* Receiver-not-ready wait for min_rnr_timer 0 … 31 (lower five bits count): 10 us … 655.36 ms, in ns. */
uint64_t roce_rnr_ns(unsigned timer_code);

/* ACK timeout 4.096 us * 2^code in ns, for code 1 … 31; 0 means none and gives 0. */
static inline uint64_t roce_ack_timeout_ns(unsigned code)
{
    return code & 31 ? UINT64_C(4096) << (code & 31) : 0;
}

#endif
