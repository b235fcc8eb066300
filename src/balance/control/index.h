/* SPDX-License-Identifier: Apache-2.0 */
/* Finds services and workers of a model by id, by name, and by where they are. */
#ifndef GW_BALANCE_CONTROL_INDEX_H
#define GW_BALANCE_CONTROL_INDEX_H

#include "src/balance/control/model.h"

/* Makes the index of a model that has none. -ENOMEM. */
int gw_bal_index_open(struct gw_bal_model *m);
void gw_bal_index_close(struct gw_bal_model *m);

/* Takes the first free id from *next on, which rests ids as long as possible; -ENOSPC: all are taken. */
int gw_bal_index_service_id(struct gw_bal_model *m, uint32_t *id);
int gw_bal_index_worker_id(struct gw_bal_model *m, uint32_t *id);

/* The object's id, name, address and port stay the same while it is in the index. */
void gw_bal_index_add_service(struct gw_bal_model *m, struct gw_bal_service *s);
void gw_bal_index_add_worker(struct gw_bal_model *m, struct gw_bal_worker *w);
void gw_bal_index_drop_service(struct gw_bal_model *m, struct gw_bal_service *s);
void gw_bal_index_drop_worker(struct gw_bal_model *m, struct gw_bal_worker *w);

/* NULL: none. */
struct gw_bal_service *gw_bal_index_service(const struct gw_bal_model *m, const char *name);
struct gw_bal_worker *gw_bal_index_worker(const struct gw_bal_model *m, const struct gw_bal_service *s,
                                          const char *name);

#endif
