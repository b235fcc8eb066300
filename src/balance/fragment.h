/* SPDX-License-Identifier: Apache-2.0 */
/* fragment.h: packets in fragments. The later ones follow the first, which alone has ports. */
#ifndef GW_SRC_BALANCE_FRAGMENT_H
#define GW_SRC_BALANCE_FRAGMENT_H

#include "src/balance/step.h"

/* Later fragments of this packet go to the same worker. */
void bal_fragment_note(struct bal_core *core, struct bal_work *w, uint16_t worker);
/* Sends a later fragment on. */
void bal_fragment_later(struct bal_core *core, struct bal_work *w);

#endif
