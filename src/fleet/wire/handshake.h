/* SPDX-License-Identifier: Apache-2.0 */
/* What comes before a connection is open. */
#ifndef GW_FLEET_WIRE_HANDSHAKE_H
#define GW_FLEET_WIRE_HANDSHAKE_H

#include "src/fleet/wire/link.h"

/* Sends HELLO. */
void fleet_handshake_begin(struct fleet_conn *c);
/* A frame came. True: the peer has proved itself. */
bool fleet_handshake_frame(struct fleet_conn *c, const struct fleet_frame *frame, const void *body);

#endif
