/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the kernels that post to a hand-made queue pair. */
#ifndef GW_TESTS_POST_KERNELS_H
#define GW_TESTS_POST_KERNELS_H

#include <gpuwire/verbs_device.h>

enum post_how {
    POST_PUT,   /* each thread by itself */
    POST_DEFER, /* each thread, ringing every third time */
    POST_WARP,  /* whole warps; lanes take part in turn */
    POST_LIST,  /* gw_post_send with lists of requests of one to four WQEBBs */
    TX_THREAD,  /* the fast calls: each thread by itself */
    TX_DEFER,   /* each thread, ringing every third time */
    TX_WARP,    /* whole warps; lanes take part in turn, and all of them every fourth time */
    TX_BLOCK,   /* the same, whole blocks */
};

struct post_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq;
    uint32_t how;
    uint32_t each;       /* requests per thread */
    uint32_t signal_all; /* else every fourth */
    uint64_t limit_ns;
    struct post_result *result; /* one for all */
};

struct post_result {
    uint32_t posted, completed, errors, full, timeouts;
    uint32_t out_of_order; /* tickets that are not above the thread's last */
    uint32_t wr_id_sum;    /* of completions */
    uint32_t ns;           /* the longest that a thread took to post all of its requests */
};

struct recv_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq;
    uint32_t each;
    uint64_t limit_ns;
    struct post_result *result;
    uint32_t *imm; /* per completion, in the order of polling: wr_id */
};

#endif
