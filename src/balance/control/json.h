/* SPDX-License-Identifier: Apache-2.0 */
/* The model as JSON: what the API shows and takes, and what a control plane that starts again finds. */
#ifndef GW_BALANCE_CONTROL_JSON_H
#define GW_BALANCE_CONTROL_JSON_H

#include <jansson.h>

#include "src/balance/control/json_check.h"
#include "src/balance/control/json_get.h"
#include "src/balance/control/model.h"

/* New references; NULL: no memory. */
json_t *gw_bal_worker_json(const struct gw_bal_service *s, const struct gw_bal_worker *w);
json_t *gw_bal_service_json(const struct gw_bal_service *s);
json_t *gw_bal_model_json(const struct gw_bal_model *m);

/* A caller describes a service or a worker. Members that are not there keep what *out has. -EINVAL with
 * the reason. */
int gw_bal_service_from(const json_t *from, struct gw_bal_service *out);
int gw_bal_worker_from(const json_t *from, struct gw_bal_worker *out);
/* Fills an empty model with what gw_bal_model_json wrote: ids, states and health as they were. Objects that
 * cannot be read are counted in m->lost, and stay away. -EINVAL: it is no state at all. */
int gw_bal_model_from(const json_t *from, struct gw_bal_model *m, uint64_t now_ns);

/* A part of the model: the objects whose marks are set in `what`, by id, and which ids have gone. */
struct gw_bal_part {
    uint8_t service[GW_BAL_SERVICES], worker[GW_BAL_WORKERS]; /* enum gw_bal_mark */
};
enum gw_bal_mark { GW_BAL_SAME, GW_BAL_CHANGED, GW_BAL_GONE };
json_t *gw_bal_part_json(const struct gw_bal_model *m, const struct gw_bal_part *what);
/* Makes of a model with these ids the one that gw_bal_part_json was asked for. -EINVAL: it is no part. */
int gw_bal_part_from(const json_t *from, struct gw_bal_model *m, uint64_t now_ns);

/* `drain_limit_ms`, as drain.h has it. */
int gw_bal_get_drain_limit(const json_t *from, uint64_t *limit_ns);

#endif
