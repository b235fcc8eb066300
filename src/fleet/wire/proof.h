/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How peers prove that they know the fleet's token. Each sends HELLO with a random nonce. Then each sends a
 * HMAC-SHA256 by the token over who proves, the dialler's HELLO and the listener's. So a proof is of use on
 * no other connection, in no other direction and for no other name.
 */
#ifndef GW_FLEET_WIRE_PROOF_H
#define GW_FLEET_WIRE_PROOF_H

#include <stdbool.h>

#include "src/fleet/wire/message.h"

int fleet_proof_nonce(uint8_t nonce[FLEET_PROOF]);

/* The proof of the dialler, or of the listener. Zeros when there is no token. */
int fleet_proof_make(const char *token, bool of_dialler, const struct fleet_hello *dialler,
                     const struct fleet_hello *listener, struct fleet_proof *out);

/* In constant time. */
bool fleet_proof_equal(const struct fleet_proof *a, const struct fleet_proof *b);

#endif
