/* SPDX-License-Identifier: Apache-2.0 */
/* handover.h: what any thread hands over to a loop's thread. It allocates nothing for each thing. */
#ifndef GW_FLEET_WORKER_HANDOVER_H
#define GW_FLEET_WORKER_HANDOVER_H

#include "src/fleet/wire/conn.h"

/* Part of the thing that is handed over. */
struct fleet_handed {
    struct fleet_handed *next;
    void (*f)(struct fleet_handed *h);
};

struct fleet_handover;

/* The loop's thread. -ENOMEM. */
int fleet_handover_create(struct fleet_loop *l, struct fleet_handover **out);
/* Any thread: the loop's thread calls h->f(h) in one of its next turns, in the order of the calls. */
void fleet_handover_put(struct fleet_handover *o, struct fleet_handed *h);
/* The loop's thread: takes what is there now. */
void fleet_handover_run(struct fleet_handover *o);
/* The loop's thread, when no other one will hand over any more. Takes what is there. NULL is allowed. The
 * memory is free when the loop has made the call that it may owe. */
void fleet_handover_close(struct fleet_handover *o);

#endif
