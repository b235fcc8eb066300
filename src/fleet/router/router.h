/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.h: the models of a fleet, as what stands behind the doors of src/server. A router keeps no state
 * that another one would miss: any number of them can stand side by side.
 */
#ifndef GW_FLEET_ROUTER_H
#define GW_FLEET_ROUTER_H

#include <stdbool.h>

#include "src/fleet/client/fleet_client.h"
#include "src/server/requests/backend.h"

struct fleet_router;

struct fleet_router_opts {
    struct fleet_client_opts client;
    int64_t deadline_ns; /* of a request that names none; 0: the client's patience */
    uint64_t memory;     /* bytes of tensors that may be under way; 0: 1 GiB */
};

/* As fleet_client_open. */
int fleet_router_open(const struct fleet_router_opts *opts, struct fleet_router **out);
/* From now on no request is answered: those that doors wait for are refused. Before the doors are stopped. */
void fleet_router_end(struct fleet_router *r);
/* When no door is open any more, and no run is left. NULL is allowed. */
void fleet_router_close(struct fleet_router *r);

/* Its ctx is a struct fleet_router. */
extern const struct gw_infer_backend fleet_router_backend;

/* Is any request under way, or an answer that a door has not sent? Any thread. */
bool fleet_router_is_busy(struct fleet_router *r);

#endif
