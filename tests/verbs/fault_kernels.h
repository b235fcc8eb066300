/* SPDX-License-Identifier: Apache-2.0 */
/* One operation by one call, in which something goes wrong, and what each thread is told of it. */
#ifndef GW_TESTS_FAULT_KERNELS_H
#define GW_TESTS_FAULT_KERNELS_H

#include <gpuwire/verbs_device.h>

enum fault_call { CALL_TYPED, CALL_STRUCT, CALL_TICKET, CALLS };
enum fault_form { FORM_THREAD, FORM_WARP, FORM_BLOCK, FORMS };
enum fault_op {
    OP_PUT,
    OP_PUT_IMM,
    OP_SIGNAL,
    OP_GET,
    OP_ADD,
    OP_SWAP,
    OP_MASKED_ADD,
    OP_MASKED_SWAP,
    OP_SEND,
    OP_SEND_IMM,
    OPS,
};

#define FAULT_THREADS 64
#define FAULT_BYTES   64 /* of a request */
#define FAULT_NOBODY  UINT32_MAX

/* Where a request reads and writes. */
struct fault_place {
    uint64_t local, remote, signal;
    uint32_t lkey, rkey, signal_rkey;
};

struct fault_out {
    uint32_t group;                   /* threads that post together */
    int32_t opened, posted;           /* … what they were told: the same */
    uint64_t ticket[FAULT_THREADS];   /* of each */
    int32_t all, each[FAULT_THREADS]; /* what waiting together, and each for its own, has returned */
    int32_t flushed;                  /* gw_tx_flush */
    int32_t later, later_all;         /* a post after the fault, and waiting for it */
    uint32_t wcs; /* completions: of the requests, of one posted right after them, of the later one */
    struct ibv_wc wc[FAULT_THREADS + 2];
    int32_t faulted;
    struct gw_fault fault;
    uint64_t took_ns; /* the longest wait */
    uint64_t rounds;  /* that went well; the host looks at the same time */
};

struct fault_args {
    struct gw_qp_handle *qp, *peer; /* peer: takes what is sent; NULL: none, or another process */
    struct gw_cq_handle *cq, *peer_cq;
    uint32_t call, form, op;
    uint32_t loop; /* again and again, until it fails */
    uint32_t one_owner;
    uint32_t bad;                   /* the thread whose request is `wrong` (in every way), or FAULT_NOBODY */
    struct fault_place good, wrong; /* good: the first thread's */
    uint64_t inbox;                 /* the peer's receives */
    uint64_t limit_ns;
    struct fault_out *out;
};

#endif
