/* SPDX-License-Identifier: Apache-2.0 */
/* publication.h: a snapshot is made, checked by the code that will run it, and freed. By the thread that
 * publishes. */
#ifndef GW_SRC_BALANCE_PUBLICATION_H
#define GW_SRC_BALANCE_PUBLICATION_H

#include "src/balance/snapshot.h"

/* Makes one; `last`, which may be NULL, lends tables that have not changed. bal_publish's errors. */
int bal_snapshot_make(struct bal_neighbours *neighbours, const struct bal_config *config,
                      const struct bal_snapshot *last, struct bal_snapshot **out, char *error, size_t size);
void bal_snapshot_free(struct bal_snapshot *s);

#endif
