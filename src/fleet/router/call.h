/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: one inference that a door asks the fleet for: memory for its tensors, and where it stands. */
#ifndef GW_FLEET_ROUTER_CALL_H
#define GW_FLEET_ROUTER_CALL_H

#include "src/door/room.h"
#include "src/fleet/router/catalog.h"

/* What all calls share. */
struct fleet_calls {
    struct gw_room room;  /* bytes of their tensors */
    int64_t deadline_ns;  /* of a request that names none; 0: the client's patience */
    pthread_mutex_t lock; /* of the next two; taken before a call's own */
    struct gw_infer_call *first;
    bool over; /* none is taken any more */
};

void fleet_calls_open(struct fleet_calls *calls, uint64_t memory, int64_t deadline_ns);
/* From now on no door waits for an answer, and none is asked for. What the client has goes on. */
void fleet_calls_end(struct fleet_calls *calls);
/* Is any there still? */
bool fleet_calls_are_busy(struct fleet_calls *calls);
/* When none is left. */
void fleet_calls_close(struct fleet_calls *calls);

/* The functions of a gw_infer_backend, for a model that is described. */
int fleet_call_take(struct fleet_calls *calls, struct fleet_catalog_model *m, uint32_t rows, const char *who,
                    struct gw_infer_call **out);
void fleet_call_give(struct gw_infer_call *call);
const struct gw_layout *fleet_call_layout(const struct gw_infer_call *call, int output);
void *fleet_call_input(struct gw_infer_call *call, uint32_t tensor, uint32_t rows, uint64_t *bytes);
const void *fleet_call_output(const struct gw_infer_call *call, uint32_t tensor, uint64_t *bytes);
int fleet_call_submit(struct gw_infer_call *call, const struct gw_infer_ask *ask);
int fleet_call_wait(struct gw_infer_call *call, uint64_t deadline);
int fleet_call_cancel(struct gw_infer_call *call);
int fleet_call_result(struct gw_infer_call *call, const struct gw_infer_model *m,
                      struct gw_infer_times *times, struct gw_infer_error *error);

#endif
