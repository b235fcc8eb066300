/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a connection: a device, a queue pair and a buffer. Functions return 0 or a line, as
 * tests/child.h says. */
#ifndef GW_TESTS_VERBS_SIDE_H
#define GW_TESTS_VERBS_SIDE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/verbs.h>

#include "tests/child.h"

#define SIDE_BYTES 65536u
#define LIMIT      60000000000u

struct side {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    uint8_t *mem;
};

static inline int open_side(struct side *s, const char *device)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 32, .max_recv_wr = 32};

    s->mem = aligned_alloc(4096, SIDE_BYTES);
    TRY(s->mem);
    memset(s->mem, 0, SIDE_BYTES);
    TRY(!gw_device_open(device, NULL, &s->dev));
    TRY(!gw_pd_create(s->dev, &s->pd) && !gw_cq_create(s->dev, &ca, &s->cq));
    qa.send_cq = qa.recv_cq = s->cq;
    TRY(!gw_qp_create(s->pd, &qa, &s->qp) && !gw_mr_register(s->pd, s->mem, SIDE_BYTES, 0, &s->mr));
    return 0;
}

static inline int close_side(struct side *s)
{
    TRY(!gw_qp_destroy(s->qp) && !gw_cq_destroy(s->cq) && !gw_mr_free(s->mr) && !gw_pd_destroy(s->pd));
    TRY(!gw_device_close(s->dev));
    free(s->mem);
    return 0;
}

/* Writes the first bytes of the buffer to an address of the peer's. */
static inline int put_and_wait_at(struct side *s, uint64_t addr, uint32_t rkey, uint32_t len,
                                  enum ibv_wc_status want)
{
    struct ibv_wc wc;

    TRY(!gw_post_op(gw_qp_handle(s->qp), gw_put_op(s->mr->addr, s->mr->lkey, addr, rkey, len), GW_SIGNALED,
                    5));
    TRY(gw_wait_cq(gw_cq_handle(s->cq), 1, &wc, gw_deadline(LIMIT), NULL, -1) == 1);
    TRY(wc.status == want && wc.wr_id == 5);
    return 0;
}

/* Connects two sides of one process without rdma_cm. */
static inline int join_sides(struct side *a, struct side *b, const struct gw_connect_opts *o)
{
    struct gw_endpoint to_a, to_b;

    gw_qp_endpoint(a->qp, &to_a);
    gw_qp_endpoint(b->qp, &to_b);
    TRY(!gw_qp_connect(a->qp, &to_b, o));
    if (a != b) TRY(!gw_qp_connect(b->qp, &to_a, o));
    return 0;
}

/* a writes `text` to b, which gets it. */
static inline int one_puts(struct side *a, struct side *b, const char *text)
{
    uint32_t len = (uint32_t)strlen(text) + 1;

    memcpy(a->mem, text, len);
    TRY(!put_and_wait_at(a, b->mr->addr + SIDE_BYTES / 2, b->mr->rkey, len, IBV_WC_SUCCESS));
    TRY(!memcmp(b->mem + SIDE_BYTES / 2, text, len));
    return 0;
}

#endif
