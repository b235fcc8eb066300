/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker is checked next, and what the results mean. Time is an argument: tests have a clock of
 * their own. */
#ifndef GW_BALANCE_CONTROL_HEALTH_H
#define GW_BALANCE_CONTROL_HEALTH_H

#include <stddef.h>

#include "src/balance/control/model.h"

struct gw_bal_due {
    struct gw_bal_service *service;
    struct gw_bal_worker *worker;
};

/* Workers whose check is due. The list keeps its memory from one look to the next. */
struct gw_bal_due_list {
    struct gw_bal_due *due;
    size_t n, room;
};

/* Lists the workers whose check is due, the longest overdue first. So each worker has its turn, even where
 * checks must wait for others. *next_ns is when the first check outside the list is due; UINT64_MAX: never.
 * 0 or -ENOMEM. */
int gw_bal_health_due(const struct gw_bal_model *m, uint64_t now_ns, struct gw_bal_due_list *l,
                      uint64_t *next_ns);
void gw_bal_due_list_free(struct gw_bal_due_list *l);

/* A script has said how much the worker weighs; -1: it has not, and what was configured counts. */
void gw_bal_health_weight(struct gw_bal_model *m, struct gw_bal_worker *w, int weight);

/* The check that was begun has ended: `why` is NULL when it went well. Returns 1 when the worker went up or
 * down, which is a change of the model. The first result counts at once. Later it takes `rise` good ones in a
 * row to go up, and `fall` bad ones to go down. */
int gw_bal_health_done(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_worker *w,
                       const char *why, uint64_t now_ns);

#endif
