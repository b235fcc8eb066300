/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange between the model and the data plane: the state when it has changed, loads, queue pairs,
 * counts. Locks the core only while it looks at it, never while it waits. Functions return 0 or a negative
 * errno with the reason in gw_last_error(); link.fd is then -1 if the data plane has gone. */
#ifndef GW_BALANCE_CONTROL_EXCHANGE_H
#define GW_BALANCE_CONTROL_EXCHANGE_H

#include "src/balance/control/core.h"
#include "src/balance/control/link.h"

struct gw_bal_exchange {
    struct gw_bal_link link;
    uint64_t applied;  /* the version that the data plane has, or has refused */
    uint64_t again_ns; /* when a version that was refused as a whole is sent again */
    uint64_t settled;  /* the version that its counts know of */
    uint64_t loads_ns; /* when loads were told last */
    /* Hashes of what the data plane has been told of each object, by id; 0: nothing. `have`: they hold. */
    int have;
    uint64_t service[GW_BAL_SERVICES], worker[GW_BAL_WORKERS];
    uint64_t service_now[GW_BAL_SERVICES], worker_now[GW_BAL_WORKERS]; /* of what is being told */
};

/* The state that the data plane has from a control plane before this one; *found 0: none. */
int gw_bal_exchange_state(struct gw_bal_exchange *e, struct gw_bal_model *m, int *found);
int gw_bal_exchange_push(struct gw_bal_exchange *e, struct gw_bal_core *c);
int gw_bal_exchange_stats(struct gw_bal_exchange *e, struct gw_bal_core *c);

#endif
