/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h: a packet on its way through the balancer, and a frame that the balancer itself sends. */
#ifndef GW_SRC_BALANCE_PACKET_H
#define GW_SRC_BALANCE_PACKET_H

#include <stdint.h>

enum bal_verdict {
    BAL_SEND,    /* from port, as it is now */
    BAL_DISCARD, /* it has been counted */
    BAL_PASS,    /* give it to another core, unchanged */
};

struct bal_packet {
    uint8_t *data;     /* its Ethernet header; moves when headers are added or taken off */
    uint32_t len;      /* bytes from data */
    uint32_t headroom; /* bytes in front of data that may be written; 64 are enough for everything */
    uint8_t port;      /* in: where it came from; out: where it goes to */
    uint8_t hops;      /* cores that it has been passed to */
    uint8_t core;      /* out, BAL_PASS: the core that has its flow, or may have it */
    uint8_t verdict;   /* out: enum bal_verdict */
};

struct bal_frame { /* one that the balancer itself sends */
    uint8_t port;
    uint8_t len;
    uint8_t data[110];
};

#endif
