/* SPDX-License-Identifier: Apache-2.0 */
/* The door over RDMA: a session at the worker, opened and kept over HTTP. */
#ifndef GW_CLIENT_RDMA_H
#define GW_CLIENT_RDMA_H

#include <gpuwire/verbs.h>

#include "src/client/impl.h"

struct gw_client_session {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq; /* apart: who waits for room to send must not take answers */
    struct gw_qp *qp;
    struct gw_mem in, out; /* requests to send, answers as they come */
    struct gw_mr *in_mr, *out_mr;
    struct gw_layout out_layout;
    uint32_t pieces; /* of a request at most: header, tensors, and what lies between them */
    char id[40];     /* "": there is no session */
    uint64_t out_stride;
    uint64_t request_addr, request_stride;
    uint32_t request_rkey;
    uint64_t submitted;
    /* The server ends a session that has no request for unused_ns, or no other request for idle_ns. 0:
     * never. */
    uint64_t unused_ns, idle_ns;
    uint64_t used;     /* when it was opened, submitted to, answered or renewed */
    uint64_t heard;    /* when the oldest wait for an answer began, or the server was asked last */
    int has_requested; /* since it was opened */
    int deaf; /* the connection that opened it has bytes to read: it tells no more when the server goes */
    /* The worker's clock minus ours: 0 when it is the same, else from the answer that spent the least time on
     * the network so far. */
    int same_clock;
    int64_t clock_offset;
    int64_t least_network;
};

/* Makes queues and memory and opens a session. */
int gw_session_begin(struct gw_client *c);
void gw_session_end(struct gw_client *c);
/* Before a request: the server ends unused sessions. When half of that time has passed the client
 * asks it to keep this one. It opens another session when this one has ended, or had no request yet. */
int gw_session_keep(struct gw_client *c);
/* Nothing has been answered since `heard`: when the client is to ask. UINT64_MAX: it waits for nothing. */
uint64_t gw_session_confirm_at(const struct gw_client *c);
/* Asks whether the server has the session still. 0: it has, or does not say. Otherwise the session is over,
 * and its requests will not be answered: -EIO, or -ECONNRESET as the server has gone. Takes a second at most.
 */
int gw_session_confirm(struct gw_client *c);
/* Why the connection is broken, as gw_last_error() then says: looks whether the server is still there. */
int gw_session_broken(struct gw_client *c, int err);
/* The same when the connection has ended over which the session was opened. */
int gw_session_hung_up(struct gw_client *c);

#endif
