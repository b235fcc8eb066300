/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: flows as records. They go to a standby and come from an active balancer, and they tell of queue
 * pairs that CM did not open.
 */
#ifndef GW_SRC_BALANCE_RECORD_H
#define GW_SRC_BALANCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/balance/objects.h"

struct bal;

struct bal_record {
    uint16_t service, worker;
    uint16_t client_port; /* host order; TCP, UDP */
    uint16_t vip_port;    /* host order; where the service has any */
    uint32_t qpn;         /* RoCE: the destination's */
    uint8_t state;        /* states.h, or BAL_ENDED */
    uint8_t reserved[3];
    struct bal_addr client;
};
enum { BAL_ENDED = 0xff /* not a state: the flow has ended */ };

/*
 * Takes up to n records that a core has told since the last call. They are of flows that became established
 * or ended, and of all living ones again and again, each within some seconds. Returns how many. Only after
 * bal_feed(bal, true). A reader that is too slow loses some, and sees them in the next round.
 */
void bal_feed(struct bal *bal, bool on);
size_t bal_feed_take(struct bal *bal, uint32_t core, struct bal_record *out, size_t n);
/*
 * Gives the cores a flow to remember. It may be one of another balancer. Or it is a queue pair whose numbers
 * the ends have exchanged by themselves; then its state is BAL_ROCE_LIVE. For the thread that publishes.
 * -EAGAIN: the cores have not taken the last ones yet. -EINVAL: no such service or worker.
 */
int bal_learn(struct bal *bal, const struct bal_record *record);

#endif
