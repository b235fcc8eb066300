/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.h: how requests end that the fleet did not answer, in the words of the Open Inference Protocol. */
#ifndef GW_FLEET_ROUTER_REFUSE_H
#define GW_FLEET_ROUTER_REFUSE_H

#include <stdint.h>

#include "src/server/requests/error.h"

/* Fills *error in with what an error of fleet_client_reply means to a client of the router; `why` and
 * retry_ns are the reply's. Returns -1. */
int fleet_refuse(int err, const char *why, int64_t retry_ns, const char *model, struct gw_infer_error *error);

#endif
