/* SPDX-License-Identifier: Apache-2.0 */
/* The seed of Maglev's tables. Strangers that have it can choose ports that all lead to one worker. Balancers
 * that stand in for each other need the same one. */
#ifndef GW_BALANCE_CONTROL_SEED_H
#define GW_BALANCE_CONTROL_SEED_H

#include "src/balance/control/config.h"

/* From the secret in seed_file, else that in sync_key_file. Without either it is random, and kept in run_dir.
 * So it lasts until the next boot. 0 or a negative errno with the reason in gw_last_error(). */
int gw_bal_seed(const struct gw_bal_global *g, uint64_t *seed);

#endif
