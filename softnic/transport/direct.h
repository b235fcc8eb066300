/* SPDX-License-Identifier: Apache-2.0 */
/* direct.h: the batch of direct accesses (direct_batch.c), as direct.c fills it. */
#ifndef SN_TRANSPORT_DIRECT_H
#define SN_TRANSPORT_DIRECT_H

#include "softnic/engine/engine.h"

/* Can more go into the batch that is open? */
bool sn_batch_fits(const struct sn_direct *d, const struct sn_peer *peer, bool write);
/* Opens it if none is open. False: the peer cannot be entered now. */
bool sn_batch_open(struct sn_nic *nic, struct sn_near near, struct sn_peer *peer, bool write);
/* The queue pair's next request, the last `len` bytes of which are listed, is in the batch. */
void sn_batch_join(struct sn_qp *qp, struct sn_sreq *s, uint32_t len);
/* Copies what is listed of a request that has not joined, and closes the batch, which has no others. Returns what the
 * copy did. */
int64_t sn_batch_copy_alone(struct sn_nic *nic);
/* The copy stopped in this request: packets find out why. */
void sn_batch_stopped(struct sn_qp *qp, struct sn_sreq *s);

#endif
