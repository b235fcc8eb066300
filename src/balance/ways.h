/* SPDX-License-Identifier: Apache-2.0 */
/* ways.h: a snapshot says some things twice: the second time in the form that each packet needs. */
#ifndef GW_SRC_BALANCE_WAYS_H
#define GW_SRC_BALANCE_WAYS_H

#include "src/balance/snapshot.h"

/* Fills direct, way and up from the rest of a snapshot. */
void bal_make_ways(struct bal_snapshot *s);

#endif
