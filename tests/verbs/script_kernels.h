/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests as data, so that one kernel can be told what to post, wait for and report, on either
 * executor. */
#ifndef GW_TESTS_SCRIPT_KERNELS_H
#define GW_TESTS_SCRIPT_KERNELS_H

#include <gpuwire/verbs_device.h>

enum step_call {
    STEP_PUT,
    STEP_PUT_IMM,
    STEP_GET,
    STEP_SEND,
    STEP_SEND_TO,
    STEP_SEND_TO_IMM,
    STEP_RECV,
    STEP_IBV_SEND, /* gw_post_send; `more` chains it to the next step */
    STEP_IBV_RECV,
    STEP_RING,
    STEP_WAIT, /* for wr_id completions of CQ qp; their contents go to the output */
    STEP_EXPECT_EMPTY,
};

#define STEP_SGE 4

struct step {
    uint32_t call;
    uint32_t qp; /* 0 or 1 */
    uint32_t opcode, flags, num_sge, more;
    struct ibv_sge sge[STEP_SGE]; /* typed calls use the first */
    uint64_t raddr;
    uint32_t rkey, imm;
    uint64_t compare_add, swap;
    uint64_t wr_id;
    uint32_t ud, dqpn, qkey; /* a datagram's destination; ud 2: without an address handle */
    struct gw_ah_handle ah;
};

#define SCRIPT_STEPS 96
#define SCRIPT_WCS   192

struct script_out {
    int32_t ret[SCRIPT_STEPS]; /* of each step; of a chained one, the list's */
    uint32_t wcs;
    uint32_t wait_ns[SCRIPT_STEPS];
    struct ibv_wc wc[SCRIPT_WCS];
    int32_t faulted[2]; /* at the end: what gw_fault_of says of each queue pair */
    struct gw_fault fault[2];
};

struct script_args {
    struct gw_qp_handle *qp[2];
    struct gw_cq_handle *cq[2];
    const struct step *step;
    uint32_t steps;
    uint64_t limit_ns; /* of each wait */
    struct script_out *out;
};

/* Every thread moves its own stretches to the peer, through one queue pair that all share. */
struct share_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq;
    uint64_t src, dst;
    uint32_t lkey, rkey;
    uint32_t each, len, warp;
    uint64_t limit_ns;
    uint32_t *done; /* [0] completions, [1] errors, [2] threads that gave up */
};

/* Every fast call once, by one thread, and waits. Places are offsets: ours from src, the peer's from dst. */
enum { TICKET_STEPS = 13 };

struct ticket_args {
    struct gw_qp_handle *qp;
    uint64_t src, dst;
    uint32_t lkey, rkey;
    uint32_t fail; /* the second one has a wrong key */
    uint64_t limit_ns;
    int32_t *ret; /* of each step */
};

/* Ping-pong between two queue pairs of one thread, by WRITE_WITH_IMM. */
struct ping_args {
    struct gw_qp_handle *qp[2];
    struct gw_cq_handle *cq[2];
    uint64_t src, dst;
    uint32_t lkey, rkey, len, rounds;
    uint64_t limit_ns;
    uint64_t *ns; /* [0] all rounds, [1] rounds done */
};

#endif
