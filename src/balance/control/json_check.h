/* SPDX-License-Identifier: Apache-2.0 */
/* json_check.h: a check as JSON. */
#ifndef GW_BALANCE_CONTROL_JSON_CHECK_H
#define GW_BALANCE_CONTROL_JSON_CHECK_H

#include <jansson.h>

#include "src/balance/control/model.h"

json_t *gw_bal_check_json(const struct gw_bal_check *c);
/* The member `check`. 1: there is one, 0: there is none. */
int gw_bal_get_check(const json_t *from, struct gw_bal_check *c);

#endif
