/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence.h: TCP's sequence numbers, where they tell a connection's own segments from a stranger's.
 *
 * A core notes what follows a worker's SYN and each side's FIN. Segments while a connection opens and closes
 * are held against that. Established connections are not followed, which would cost a line of memory for each
 * packet. The notes have few places: newer ones take the place of older ones, and a lost note proves nothing.
 */
#ifndef GW_SRC_BALANCE_SEQUENCE_H
#define GW_SRC_BALANCE_SEQUENCE_H

#include "src/balance/step.h"

/* The evidence of the segment's numbers (enum bal_evidence); it has been looked up. */
unsigned bal_seq_evidence(struct bal_core *core, const struct bal_work *w);
/* Notes what follows the segment, if it has a SYN or FIN. */
void bal_seq_note(struct bal_core *core, const struct bal_work *w);
/* Does the segment follow a SYN of the client's that was noted? Its flow has found no room, or lost it. */
bool bal_seq_follows_syn(const struct bal_core *core, const struct bal_work *w);
/* With NAT: the client's RST has gone to the worker. Asks the worker whether it has taken it. A connection
 * that lives answers this segment with an ACK, and one that has ended with a RST. */
void bal_seq_probe(struct bal_core *core, const struct bal_work *w);

#endif
