/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's model in the data plane's words. */
#ifndef GW_BALANCE_CONTROL_TRANSLATE_H
#define GW_BALANCE_CONTROL_TRANSLATE_H

#include "src/balance/control/config.h"
#include "src/balance/services.h"

void gw_bal_to_addr(const struct gw_bal_addr *from, struct bal_addr *to);
/* *out begins as zeros. */
void gw_bal_translate(const struct gw_bal_model *m, const struct gw_bal_global *g, struct bal_config *out);
void gw_bal_translate_attr(const struct gw_bal_global *g, struct bal_attr *out);

#endif
