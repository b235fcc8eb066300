/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs whose ends connect them without rdma_cm: the worker tells the balancer of each. The control
 * plane remembers them, so that a data plane that starts again learns them again, and so that no two workers
 * get one number of one client. The caller holds the core's lock. Functions return 0 or a negative errno with
 * the reason in gw_last_error(). */
#ifndef GW_BALANCE_CONTROL_PAIRS_H
#define GW_BALANCE_CONTROL_PAIRS_H

#include <stdbool.h>

#include "src/balance/control/core.h"

/* The body names one: {"worker": "w1", "client": "10.0.0.50", "qpn": 4660}, and perhaps "ended": true.
 * -EINVAL: it is not of that form, or the service's protocol is not roce. -ENOENT: no such worker. -EEXIST:
 * another worker has a queue pair of that number with that client. -EAGAIN: too many wait for the data plane.
 * -ENOSPC: there are GW_BAL_PAIRS. -ENOMEM. */
int gw_bal_pairs_tell(struct gw_bal_core *c, struct gw_bal_service *s, const json_t *body);
/* All that a worker has, and no others: {"queue_pairs": [{"client": …, "qpn": …}, …]}. Another
 * worker keeps what it has. Errors as above. */
int gw_bal_pairs_set(struct gw_bal_core *c, struct gw_bal_service *s, struct gw_bal_worker *w,
                     const json_t *body);
/* {"queue_pairs": [{"worker": …, "client": …, "qpn": …}, …]} of a service. NULL: no memory. */
json_t *gw_bal_pairs_json(const struct gw_bal_core *c, const struct gw_bal_service *s);

/* Waits until the cores have been given all that was told before, a second at most, and releases the lock
 * while it waits. True: they have. */
bool gw_bal_pairs_wait(struct gw_bal_core *c);

/* The data plane has started again: it gets all of them. */
void gw_bal_pairs_again(struct gw_bal_core *c);
/* Forgets those whose worker is not there any more. */
void gw_bal_pairs_tend(struct gw_bal_core *c);
void gw_bal_pairs_free(struct gw_bal_core *c);

/* The next ones for the data plane. The caller takes the lock itself, and ends each with one of the last
 * two: the data plane has it, or it is to be tried again. */
struct gw_bal_qp *gw_bal_pairs_take(struct gw_bal_core *c);
void gw_bal_pairs_done(struct gw_bal_core *c, struct gw_bal_qp *q);
void gw_bal_pairs_back(struct gw_bal_core *c, struct gw_bal_qp *q);

#endif
