/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection begins. */
#ifndef GW_FLEET_WIRE_TALK_H
#define GW_FLEET_WIRE_TALK_H

#include "src/fleet/wire/link.h"

/* Makes the connection of a socket, which it closes if it cannot. */
int fleet_talk_make(struct fleet_loop *l, struct fleet_side *side, int fd, const struct fleet_address *peer,
                    struct fleet_conn **out);
/* TCP is there: sends HELLO and listens. */
void fleet_talk_greet(struct fleet_conn *c);

#endif
