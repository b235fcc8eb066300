/* SPDX-License-Identifier: Apache-2.0 */
/* purge.h: flows whose worker's number another worker has now. A core's own thread. */
#ifndef GW_SRC_BALANCE_PURGE_H
#define GW_SRC_BALANCE_PURGE_H

#include "src/balance/balance.h"

/* Before a core goes on to another publication: forgets flows of workers whose numbers others have there. */
void bal_purge(struct bal_core *core, const struct bal_snapshot *next);

#endif
