/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP API of the balancer: docs/balance.md lists the calls. */
#ifndef GW_BALANCE_CONTROL_API_H
#define GW_BALANCE_CONTROL_API_H

#include "src/balance/control/config.h"
#include "src/balance/control/core.h"

struct gw_bal_api;

/* Listens as the file says. 0 or a negative errno with the reason in gw_last_error(). */
int gw_bal_api_start(struct gw_bal_core *core, const struct gw_bal_global *g, struct gw_bal_api **out);
uint16_t gw_bal_api_port(const struct gw_bal_api *a);
/* Now and then, by one thread: closes connections that have stayed too long. */
void gw_bal_api_tend(struct gw_bal_api *a);
void gw_bal_api_stop(struct gw_bal_api *a);

/* One call, as the server makes it: returns the HTTP status, and sets *reply. */
unsigned gw_bal_api_call(struct gw_bal_core *core, const char *method, const char *path, const json_t *body,
                         json_t **reply);

#endif
