/* SPDX-License-Identifier: Apache-2.0 */
/* guests.h: what guests_make.c makes and guests.c works with. */
#ifndef TESTS_SIM_GUESTS_H
#define TESTS_SIM_GUESTS_H

#include "tests/sim/sim.h"

enum {
    GUEST_SLOT = 2048,
    GUEST_SENDS = 3, /* under way */
    GUEST_STRIDE = 32,
    GUEST_WINDOW = 1024,
    GUEST_UIDX = 0x900,
    GUEST_CQES = 64,
    GUEST_SQ_BBS = 32,
};

struct guests_ram {
    uint8_t out[SIM_GUESTS][GUEST_SENDS * GUEST_SLOT];
    uint8_t in[SIM_SRQS][SIM_SRQ_WQES * GUEST_SLOT];
    uint8_t lent[SIM_GUESTS][GUEST_WINDOW];
    uint8_t sq[2 * SIM_GUESTS][GUEST_SQ_BBS * 64] __attribute__((aligned(64)));
    uint8_t srq[SIM_SRQS][SIM_SRQ_WQES * GUEST_STRIDE] __attribute__((aligned(64)));
    uint8_t cq[2 * SIM_GUESTS + SIM_SRQS][GUEST_CQES * 64] __attribute__((aligned(64)));
};
extern struct guests_ram guests_ram;

static inline bool guests_xrc(const struct sim_host *h)
{
    return h->xrcd != NULL;
}

void guests_on_limit(void *sim, void *srq); /* a limit event */

#endif
