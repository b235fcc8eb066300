/* SPDX-License-Identifier: Apache-2.0 */
/* Where each packet of a message begins, and what timer codes mean. */
#include "src/roce/segment.h"

struct roce_seg roce_segment(enum roce_msg kind, uint32_t len, uint32_t mtu, uint32_t i)
{
    /* first, middle, last, only of each kind */
    static const uint8_t ops[][4] = {
        [ROCE_MSG_SEND] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST, ROCE_SEND_ONLY},
        [ROCE_MSG_SEND_IMM] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_IMM, ROCE_SEND_ONLY_IMM},
        [ROCE_MSG_SEND_INV] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_INV, ROCE_SEND_ONLY_INV},
        [ROCE_MSG_WRITE] = {ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST, ROCE_WRITE_ONLY},
        [ROCE_MSG_WRITE_IMM] = {ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST_IMM,
                                ROCE_WRITE_ONLY_IMM},
        [ROCE_MSG_READ_RESP] = {ROCE_READ_RESP_FIRST, ROCE_READ_RESP_MIDDLE, ROCE_READ_RESP_LAST,
                                ROCE_READ_RESP_ONLY},
    };
    uint32_t n = roce_packets(len, mtu);
    struct roce_seg s = {.first = i == 0, .last = i == n - 1, .offset = i * mtu};

    s.length = s.last ? len - s.offset : mtu;
    s.pad = roce_pad(s.length);
    s.opcode = ops[kind][s.first ? (s.last ? 3 : 0) : (s.last ? 2 : 1)];
    return s;
}

uint64_t roce_rnr_ns(unsigned timer_code)
{
    /* in units of 10 us */
    static const uint32_t units[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                       48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return units[timer_code & 31] * UINT64_C(10000);
}
