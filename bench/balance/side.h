/* SPDX-License-Identifier: Apache-2.0 */
/* side.h: the packets of the balancer's benchmarks, and a balancer that knows their connections. */
#ifndef BENCH_BALANCE_SIDE_H
#define BENCH_BALANCE_SIDE_H

#include "src/balance/burst.h"
#include "src/balance/core.h"
#include "src/balance/keep.h"
#include "src/balance/parse.h"
#include "src/balance/services.h"
#include "src/balance/states.h"

enum {
    SIDE_BURST = 64,
    SIDE_ROOM = 64,  /* bytes in front of a packet */
    SIDE_SLOT = 192, /* room, and the headers; a multiple of a line, as the drivers' buffers are */
    SIDE_LINK = 1514,
    SIDE_WORKERS = 32
};
#define SIDE_PACKET_NS 80.6 /* 12.4 million a second: 100 Gbit/s of packets of a thousand bytes */

struct side_mix {
    const char *name;
    uint32_t mean, opens; /* bytes; connections opened by 100 packets */
};
extern const struct side_mix side_mixes[2]; /* campus, CAIDA */

uint64_t side_random(uint64_t *state);
/* The length of a packet in a mix: many are bare acknowledgements, the mean is the mix's. */
uint32_t side_length(const struct side_mix *mix, uint64_t *random);

/* The headers of a segment of connection number `flow`, at p; they say that the frame has `length` bytes. */
void side_packet(uint8_t *p, uint64_t flow, uint8_t flags, uint32_t length);

/* Zeroed memory as the flow table has it, on large pages where there are any. NULL: none. */
void *side_memory(uint64_t bytes);
void side_memory_free(void *p, uint64_t bytes);

/* A balancer with one service of SIDE_WORKERS workers, whose room is for twice as many connections. */
int side_open(struct bal **bal, uint32_t cores, uint64_t flows, enum bal_forward forward);
/* Connections first, first + step, … below `end` are established at a core. now_ns moves on. */
void side_establish(struct bal_core *core, uint64_t first, uint64_t end, uint64_t step, double *now_ns);

#endif
