/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h: a client's session at one worker: requests are written straight into the worker's slots, answers
 * into ours (src/server/wire/wire.h).
 *
 * A session has a thread, which makes its queues and then waits for answers. All else is the loop's. The
 * session ends with the connection that opened it.
 */
#ifndef GW_FLEET_CLIENT_RDMA_H
#define GW_FLEET_CLIENT_RDMA_H

#include "src/fleet/client/impl.h"

/* Begins one at this worker, for a lease of it: `reply_bytes` is what the worker's longest answer takes, and
 * `request_bytes` what a request should. It is in use when it is ready; until then, and when it cannot be,
 * requests go over TCP. */
void fleet_rdma_begin(struct fleet_peer *p, const struct fleet_holding *h, uint64_t request_bytes,
                      uint64_t reply_bytes);
/* Ends it: what flies on it is lost, and tried elsewhere. */
void fleet_rdma_end(struct fleet_peer *p);
/* Writes the request into a free slot. False: it cannot go this way now. */
bool fleet_rdma_send(struct fleet_rdma *s, struct fleet_query *j, int64_t now);
/* The loop runs no more: waits for the threads of all sessions and frees them. */
void fleet_rdma_end_all(struct fleet_client *c);

#endif
