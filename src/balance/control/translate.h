/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's model in the data plane's words. */
#ifndef GW_BALANCE_CONTROL_TRANSLATE_H
#define GW_BALANCE_CONTROL_TRANSLATE_H

#include "src/balance/control/config.h"
#include "src/balance/services.h"

void gw_bal_to_addr(const struct gw_bal_addr *from, struct bal_addr *to);
/* BAL_PORTS of them. */
void gw_bal_to_ports(const struct gw_bal_global *g, struct bal_port *out);
void gw_bal_to_service(const struct gw_bal_service *from, struct bal_service *to);
/* `g` may be NULL: then it goes by the first port. */
void gw_bal_to_worker(const struct gw_bal_service *s, const struct gw_bal_worker *from,
                      const struct gw_bal_global *g, struct bal_worker *to);
/* *out begins as zeros. `all`: what is marked as refused, too. */
void gw_bal_translate(const struct gw_bal_model *m, const struct gw_bal_global *g, bool all,
                      struct bal_config *out);
void gw_bal_translate_attr(const struct gw_bal_global *g, struct bal_attr *out);

#endif
