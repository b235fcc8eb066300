/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h: what a core does between bursts. */
#ifndef GW_SRC_BALANCE_KEEP_H
#define GW_SRC_BALANCE_KEEP_H

#include "src/balance/balance.h"

/* Housekeeping, after each burst and when there is none: frees flows, resolves next hops, tells the feed. */
void bal_core_keep(struct bal_core *core, uint64_t now_ns);

#endif
