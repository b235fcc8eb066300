/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: requests of one model that wait, by deadline. A request is a number; it is in one queue at
 * most. */
#ifndef GW_FLEET_QUEUE_H
#define GW_FLEET_QUEUE_H

#include "src/fleet/plan/plan.h"

struct fleet_link {
    int64_t deadline_ns; /* when its batch must have ended */
    uint32_t next;
};

struct fleet_queue {
    uint32_t head, tail, n;
};

#define FLEET_QUEUE_EMPTY ((struct fleet_queue){FLEET_NONE, FLEET_NONE, 0})

/* Puts a request where its deadline belongs; after those with the same one. */
void fleet_queue_add(struct fleet_queue *q, struct fleet_link *links, uint32_t request);

/* Takes the one with the earliest deadline. The queue is not empty. */
uint32_t fleet_queue_take(struct fleet_queue *q, const struct fleet_link *links);

/* The largest batch, of at most `most`, that may begin at start_ns: its head's deadline holds. 0: the head
 * is too late. */
uint32_t fleet_queue_batch(const struct fleet_queue *q, const struct fleet_link *links,
                           const struct fleet_model *m, int64_t start_ns, uint32_t most);

/*
 * Whether to give up the head, so that a batch that begins at start_ns is larger. It is so if the head
 * allows a small batch only, and more requests wait than the best batch has. One request lost makes all
 * later ones cheaper.
 */
bool fleet_queue_give_up(const struct fleet_queue *q, const struct fleet_link *links,
                         const struct fleet_model *m, int64_t start_ns, uint32_t most);

#endif
