/* SPDX-License-Identifier: Apache-2.0 */
/* post_bench's queue pairs: libmlx5's, and handles of ours to the same memory. */
#ifndef GW_BENCH_POST_SIDE_H
#define GW_BENCH_POST_SIDE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include <gpuwire/verbs.h>

typedef int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

/* A queue pair of libmlx5's, and a handle of ours with the same queue, record and register in it. */
struct side {
    struct gw_device *dev;
    struct ibv_td *td;
    struct ibv_pd *domain, *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct gw_pd *own_pd;
    struct gw_cq *own_cq;
    struct gw_qp *own;
    struct gw_qp_handle *h;
    post_send *post_send;
};

/* Ends the program if rc is not 0. */
void bench_check(int rc, const char *what);

/* A queue pair for `requests` WQEBBs at most, used by one thread or by several. */
void side_make(struct side *s, struct gw_device *dev, uint32_t requests, uint32_t inlined, bool one_thread);
void side_free(struct side *s);

/* An empty queue for the next burst, in the cache: others of the machine would have put it out of there. */
void side_empty(struct side *s);

/* From INIT to RTS, with itself for a peer. access: what it may do to us. */
void side_connect(struct gw_device *dev, struct ibv_qp *qp, unsigned access);

/* For qsort: doubles. */
int side_by_value(const void *x, const void *y);

#endif
