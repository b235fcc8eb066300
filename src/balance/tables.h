/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h: the tables of a snapshot's services. The publishing thread. */
#ifndef GW_SRC_BALANCE_TABLES_H
#define GW_SRC_BALANCE_TABLES_H

#include "src/balance/snapshot.h"

/* Makes them, or takes those of `last` whose service has not changed; NULL: there is none. -ENOMEM. */
int bal_tables_make(struct bal_snapshot *s, const struct bal_snapshot *last);
void bal_tables_free(struct bal_snapshot *s);

#endif
