/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sound.h: does what the data path remembers hold together? Tests ask, and assertions where a core ends and
 * where a publication begins.
 */
#ifndef GW_SRC_BALANCE_SOUND_H
#define GW_SRC_BALANCE_SOUND_H

#include "src/balance/balance.h"

/* A core's flows: counts, kinds of entries, clients that stick to a worker. For the core's own thread. */
bool bal_core_is_sound(struct bal_core *core);
/* What was published: the order of snapshots, who holds a table, and whether the cores' snapshots are there.
 * For the thread that publishes. */
bool bal_is_sound(const struct bal *bal);

#endif
