/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker is checked next, and what the results mean. Time is an argument: tests have a clock of
 * their own. */
#ifndef GW_BALANCE_CONTROL_HEALTH_H
#define GW_BALANCE_CONTROL_HEALTH_H

#include "src/balance/control/model.h"

/* The next worker whose check is due, which the caller begins; its health becomes busy. NULL: none is due,
 * and *next_ns is when one will be (UINT64_MAX: never). */
struct gw_bal_worker *gw_bal_health_due(struct gw_bal_model *m, uint64_t now_ns,
                                        struct gw_bal_service **service, uint64_t *next_ns);

/* The check that was begun has ended: `why` is NULL when it went well. Returns 1 when the worker went up or
 * down, which is a change of the model. The first result counts at once. Later it takes `rise` good ones in a
 * row to go up, and `fall` bad ones to go down. */
int gw_bal_health_done(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_worker *w,
                       const char *why, uint64_t now_ns);

#endif
