/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of timers: the earliest is heap[0]. */
#ifndef GW_FLEET_WIRE_TIMER_H
#define GW_FLEET_WIRE_TIMER_H

#include "src/fleet/wire/conn.h"

struct fleet_timers {
    struct fleet_timer **heap;
    uint32_t n, room;
};
int fleet_timers_put(struct fleet_timers *h, struct fleet_timer *t, int64_t at);
void fleet_timers_take(struct fleet_timers *h, struct fleet_timer *t);

#endif
