/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of work requests as data, and what becomes of them: posted by a kernel with gw_post_send and its
 * like, and by the host with libibverbs. */
#ifndef GW_TESTS_LISTS_KERNELS_H
#define GW_TESTS_LISTS_KERNELS_H

#include <gpuwire/verbs_device.h>

#define BATCH 8
#define SGES  4

/* In terms of offsets as it is made, of addresses and keys as it is posted. */
struct batch {
    int n, recvs;
    int good;    /* of the n requests: those before the one that is refused when it is posted */
    int sends;   /* good ones that complete with success */
    int sure;    /* of the receives: datagrams come for these, whatever becomes of later ones */
    int broken;  /* contains something that ends in an error completion */
    int refused; /* the last receive is refused when it is posted */
    struct ibv_send_wr wr[BATCH];
    struct ibv_recv_wr recv[BATCH + 1];
    struct ibv_sge sge[BATCH][SGES], recv_sge[BATCH + 1][SGES];
    struct gw_ah_handle ah;
};

#define OUTCOME_WCS 1024

struct outcome {
    int ret[2];     /* of the lists of requests and receives: positive errno values */
    int64_t bad[2]; /* the place of the request that was refused, -1: none was */
    int lists;      /* of requests, posted whole */
    int n[2];
    struct ibv_wc wc[2][OUTCOME_WCS]; /* of the sender, and of its peer */
};

/* What is waited for. */
struct goal {
    int sends, recvs;
    int until_last; /* not a number of sends, but the one with this wr_id */
    uint64_t last;
};

/* Has the sender all that it waits for? Of a list with an error in it that is its last request's completion,
 * flushed or not. */
GW_FN int lists_sent(const struct outcome *o, const struct goal *g)
{
    return g->until_last ? o->n[0] && o->wc[0][o->n[0] - 1].wr_id == g->last : o->n[0] >= g->sends;
}

struct lists_args {
    struct gw_qp_handle *qp[2];
    struct gw_cq_handle *cq[2];
    struct batch *batch; /* as the kernel sees it; NULL: nothing is posted */
    uint32_t who;        /* the thread that acts */
    int times;           /* the list of requests is posted so often, or until it is refused */
    struct goal goal;
    uint64_t limit_ns;
    struct outcome *out;
};

#endif
