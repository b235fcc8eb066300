/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h: what a process tells its peers of its memory regions and queue pairs, and what these may do by it.
 *
 * One writer at a time (the engine's lock); readers are other processes. Pure functions on shared memory.
 */
#ifndef SOFTNIC_LOCAL_TABLE_H
#define SOFTNIC_LOCAL_TABLE_H

#include <stdbool.h>

#include "softnic/local/share.h"

/* NULL takes the entry back. A region whose index is beyond the table is not entered: peers send packets
 * then. */
void sn_table_region(struct sn_table *t, uint32_t key, const struct sn_peer_region *region);
void sn_table_queue(struct sn_table *t, uint32_t qpn, const struct sn_peer_queue *queue);

/*
 * Does the table of a peer, whatever is in it, allow the access? Then *addr is where it goes in the peer's
 * memory: an address that the peer named, valid or not. The rules are those of the responder. The queue pair
 * must be in a state that takes requests from this requester, and allow this one. The region's key,
 * protection domain, rights and bounds must fit. An access of length 0 needs no region. If the memory is a
 * GPU's, *gpu says which, and *addr lies in it with all of the access; else gpu->size is 0.
 */
bool sn_table_grants(const struct sn_table *t, const struct sn_peer_access *access, uint64_t *addr,
                     struct sn_gpu_share *gpu);

/* Is the region with that key there, and in that memory of a GPU? */
bool sn_table_shares(const struct sn_table *t, uint32_t key, const struct sn_gpu_share *gpu);
/* Is it in a GPU's memory at all? */
bool sn_table_on_gpu(const struct sn_table *t, uint32_t key);

#endif
