/* SPDX-License-Identifier: Apache-2.0 */
/* direct.h: the batches of direct accesses (direct_batch.c, direct_end.c), as direct.c fills them. */
#ifndef SOFTNIC_TRANSPORT_DIRECT_H
#define SOFTNIC_TRANSPORT_DIRECT_H

#include "softnic/transport/transport.h"

/* Is it better copied than gathered into further? */
bool sn_batch_enough(const struct sn_direct *d);
/* Can one more request go into the batch that gathers, or into a new one? False: those under way come
 * first. */
bool sn_batch_room(struct sn_nic *nic);
/* Are these accesses to this peer? */
bool sn_batch_fits(const struct sn_direct *d, const struct sn_peer *peer, bool write);
/* Opens the peer's memory, if that is not done. False: it cannot be entered now. */
bool sn_batch_open(struct sn_nic *nic, struct sn_peers peers, struct sn_peer *peer, bool write);
/* Does the batch that gathers have requests? */
bool sn_batch_has_items(const struct sn_direct *d);
/* The queue pair's next request, the last `len` bytes of which are listed, is in the batch. */
void sn_batch_join(struct sn_qp *qp, struct sn_sreq *s, uint32_t len);
/* No more join it: it is put on its way, unless too many are. */
void sn_batch_close(struct sn_nic *nic);
/* Nothing was joined: leaves the peer, if nothing is under way there either. */
void sn_batch_rest(struct sn_nic *nic);
/* Copies what is listed of a request that has not joined, alone, and leaves the peer. Returns what the copy
 * did. */
int64_t sn_batch_copy_alone(struct sn_nic *nic);

/* direct_end.c. The batch's copy has ended: so have its requests, or they are sent. */
void sn_batch_end(const struct sn_batch *b);
/* Requests from `at` on, none of which was sent, get new PSNs. */
void sn_batch_renumber(struct sn_qp *qp, uint32_t at, uint32_t psn);
/* The copy stopped in this request: packets find out why. */
void sn_batch_stopped(struct sn_qp *qp, struct sn_sreq *s);

#endif
