/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h: records of flows to a standby (record.h), as a core tells and learns them. */
#ifndef GW_SRC_BALANCE_FEED_H
#define GW_SRC_BALANCE_FEED_H

#include "src/balance/record.h"
#include "src/balance/step.h"

/* Tells the feed of a flow. */
void bal_tell(struct bal_core *core, enum bal_where where, const void *key, uint16_t worker, uint8_t state);
/* Takes records that bal_learn gave. */
void bal_feed_learn(struct bal_core *core);
/* Tells flows again, as many as the time since the last call asks for. */
void bal_feed_round(struct bal_core *core);

#endif
