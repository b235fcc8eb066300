/* SPDX-License-Identifier: Apache-2.0 */
/* How far a peer's clock is from ours, from PING and PONG. */
#ifndef GW_FLEET_WIRE_CLOCK_H
#define GW_FLEET_WIRE_CLOCK_H

#include <stdint.h>

#include "src/fleet/wire/message.h"

enum { FLEET_CLOCK_SAMPLES = 8 };

struct fleet_clock {
    int64_t asked_at; /* of the PING that is not answered yet; 0: none */
    uint32_t n;       /* samples that came, in all */
    struct fleet_clock_sample {
        int64_t offset_ns, error_ns, at;
    } sample[FLEET_CLOCK_SAMPLES];
};

/* A PONG came. One that answers no PING, or tells impossible times, counts for nothing. */
void fleet_clock_pong(struct fleet_clock *c, const struct fleet_ping *pong, int64_t now);

/* -EAGAIN: nothing is known. */
int fleet_clock_read(const struct fleet_clock *c, int64_t now, int64_t *offset_ns, int64_t *error_ns);

#endif
