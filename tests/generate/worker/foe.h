/* SPDX-License-Identifier: Apache-2.0 */
/* A client that writes what it likes: one session, opened at the pool, with a queue pair of its own. */
#ifndef GW_TEST_GENERATE_FOE_H
#define GW_TEST_GENERATE_FOE_H

#include "tests/generate/worker/rig.h"

#define FOE_SLOTS 8u
#define FOE_RING  128u

struct foe {
    struct rig *rig;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_mem out, in; /* requests; events */
    struct gw_mr *out_mr, *in_mr;
    struct gen_wish wish;
    struct gen_grant grant;
    uint64_t stride;
};

/* Makes its queues and memory; `receives` are posted at once. */
void foe_make(struct foe *f, struct rig *r);
/* Asks for a session with f->wish, and connects. As gen_pool_open. */
int foe_open(struct foe *f, uint32_t receives);
void foe_free(struct foe *f);

/* A request that is sound, in our memory of that slot; *bytes: of the message. */
struct gen_request *foe_request(struct foe *f, uint32_t slot, uint32_t prompt, uint32_t most,
                                uint32_t *bytes);
/* Writes it into the slot, and says so with that immediate. */
void foe_send(struct foe *f, uint32_t slot, uint32_t bytes, uint32_t imm);
/* Waits for an event: its slot; false: the queue pair has failed, or none comes for that long. */
bool foe_event(struct foe *f, uint64_t patience_ns, uint32_t *slot);
/* Takes events until one is a request's last, whose status it returns; -1: none comes. Each slot has had no
 * earlier request. */
int foe_status(struct foe *f, uint32_t *detail);

#endif
