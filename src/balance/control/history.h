/* SPDX-License-Identifier: Apache-2.0 */
/* The history of services and workers: the last ten minutes, one value each five seconds. So a page that is
 * opened now has something to draw. Only what had connections or packets takes room, and no more than
 * GW_BAL_TRACES services and workers do. Time is an argument: tests have a clock of their own. */
#ifndef GW_BALANCE_CONTROL_HISTORY_H
#define GW_BALANCE_CONTROL_HISTORY_H

#include <jansson.h>
#include <stdbool.h>

#include "src/balance/control/model.h"

#define GW_BAL_HISTORY_SLOTS 120u
#define GW_BAL_HISTORY_NS    5000000000ull /* of one slot */
#define GW_BAL_TRACES        4096u         /* 8 MB */

/* The counts of one slot; `live` is the number at its end. */
struct gw_bal_slot {
    uint32_t live, opened, packets;
    float bytes;
};

/* Slot n is at n % GW_BAL_HISTORY_SLOTS. */
struct gw_bal_trace {
    uint64_t seen, busy; /* the last slots that its object was there in, and did something in */
    struct gw_bal_slot slot[GW_BAL_HISTORY_SLOTS];
};

/* The data plane's counts for a worker at the end of slot `slot`. */
struct gw_bal_counted {
    uint64_t slot, opened, packets, bytes;
};

struct gw_bal_history {
    uint64_t slot; /* that was filled last; 0: none */
    uint64_t taken_ns;
    bool known[GW_BAL_HISTORY_SLOTS]; /* the data plane told its counts in this slot */
    struct gw_bal_trace all;
    struct gw_bal_trace *service[GW_BAL_SERVICES], *worker[GW_BAL_WORKERS]; /* by id; NULL: no value but 0 */
    uint32_t traces;
    struct gw_bal_counted before[GW_BAL_WORKERS];
};

/* The data plane has just told its counts, which are in the model. Does nothing within a slot. */
void gw_bal_history_take(struct gw_bal_history *h, const struct gw_bal_model *m, uint64_t now_ns);
void gw_bal_history_free(struct gw_bal_history *h);

/* {"every_ms": 5000, "age_ms": …} and `live`, `opened`, `packets` and `bytes`, the oldest first. null: the
 * data plane told nothing then. NULL: no memory. */
json_t *gw_bal_history_json(const struct gw_bal_history *h, uint64_t now_ns);
/* The same of a service, with `workers`: each has its `name`. An idle object, or one that there is no room
 * for, has no values; the latter's `kept` is false. */
json_t *gw_bal_history_service_json(const struct gw_bal_history *h, const struct gw_bal_service *s,
                                    uint64_t now_ns);

#endif
