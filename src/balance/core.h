/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h: a core's life. It begins, looks at the newest publication now and then, and ends. Between begin and
 * end one thread calls all functions that take a struct bal_core.
 */
#ifndef GW_SRC_BALANCE_CORE_H
#define GW_SRC_BALANCE_CORE_H

#include "src/balance/balance.h"

/* Makes the memory of bal->core[index]. -ENOMEM: bal_core_free takes what is there. */
int bal_core_make(struct bal *bal, uint32_t index);
void bal_core_free(struct bal_core *core); /* NULL is allowed */

/* NULL: the balancer has fewer cores. */
struct bal_core *bal_core_begin(struct bal *bal, uint32_t index);
void bal_core_end(struct bal_core *core);

/* Looks at the time and the newest publication; the one before is not read any more. gw_balance_burst and
 * bal_core_keep do so. */
void bal_core_look(struct bal_core *core, uint64_t now_ns);

#endif
