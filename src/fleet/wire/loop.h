/* SPDX-License-Identifier: Apache-2.0 */
/* What connections and listeners need of the loop, beyond conn.h. */
#ifndef GW_FLEET_WIRE_LOOP_H
#define GW_FLEET_WIRE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/conn.h"

enum { FLEET_SCRATCH = 64 << 10 };

/* Work for the end of the turn, when no handler looks at what it may free. */
struct fleet_errand {
    struct fleet_errand *next;
    void (*f)(struct fleet_errand *e);
    bool queued;
};
void fleet_errand_queue(struct fleet_loop *l, struct fleet_errand *e);

/* What goes when the loop goes. */
struct fleet_member {
    struct fleet_member *prev, *next;
    void (*destroy)(struct fleet_member *m);
};
void fleet_member_add(struct fleet_loop *l, struct fleet_member *m);
void fleet_member_remove(struct fleet_member *m);

/* EPOLLIN, EPOLLOUT, both or neither; a watch begins with EPOLLIN. */
int fleet_watch_events(struct fleet_loop *l, struct fleet_watch *w, uint32_t events);

/* FLEET_SCRATCH bytes to read into, and as many to put a body at a multiple of 8. No content outlives a
 * call. */
struct fleet_scratch_room {
    uint8_t *read, *aligned;
};
struct fleet_scratch_room *fleet_loop_scratch(struct fleet_loop *l);

/* The clock itself. */
int64_t fleet_clock_now(void);

#endif
