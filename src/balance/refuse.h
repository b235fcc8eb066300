/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse.h: the answer to a packet that cannot be delivered: a TCP RST, or an ICMP error. Each client hears
 * some tens of these a second, and all clients of a core some thousands.
 */
#ifndef GW_SRC_BALANCE_REFUSE_H
#define GW_SRC_BALANCE_REFUSE_H

#include "src/balance/step.h"

/* Drops the packet. Its sender is told, if the configuration says so and if the packet may be answered. */
void bal_refuse(struct bal_core *core, struct bal_work *w, enum bal_drop why);
/* Drops a packet that does not fit its way; `mtu` would. Its sender is told if it forbids fragments. */
void bal_refuse_size(struct bal_core *core, struct bal_work *w, uint32_t mtu);

#endif
