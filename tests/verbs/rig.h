/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair and its CQ, made by hand in an executor's memory. A thread plays the NIC: it takes rings out
 * of the register, reads the record, checks and counts every WQE, and writes completions. So posting and
 * polling are tested without a NIC.
 */
#ifndef GW_TESTS_VERBS_RIG_H
#define GW_TESTS_VERBS_RIG_H

#include <pthread.h>
#include <stdbool.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

struct rig_opts {
    uint32_t wqebbs, wqes, cqes;
    uint32_t qp_flags, cq_flags;
    uint32_t tokens; /* WQEs carry a token as remote address: 0 … tokens - 1, each once */
    uint32_t shift;  /* … moved up by this number of bits */
    /* number (from 1) of the WQE that completes in error, everything after it flushed; 0: none */
    uint32_t fail_at;
    bool receive;   /* completes receives as they are posted */
    uint64_t first; /* WQEBBs, and receives, that have been posted and have completed before */
};

struct rig {
    struct rig_opts o;
    struct gw_exec *exec;
    struct gw_mem queues, handles;
    /* As the CPU sees them. */
    uint8_t *sq, *rq, *cq;
    uint32_t *dbrec, *cq_dbrec;
    uint64_t *db;
    /* As the executor sees them. */
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cqh;

    pthread_t thread;
    uint32_t stop;
    bool dead;
    /* The NIC's view. */
    uint8_t *seen; /* per token, how often */
    uint32_t wqes, nops, bbs, rings, empty_rings, received;
    uint32_t ci, rq_ci, pi; /* WQEBBs executed, receives taken, CQEs written */
    bool failed;
    char wrong[160]; /* the first thing that is not as it must be */
};

void rig_start(struct rig *r, struct gw_exec *exec, const struct rig_opts *o);
/* The NIC does nothing any more, and does not say so. */
void rig_die(struct rig *r);
/* Stops the NIC and frees everything; what it saw stays. */
void rig_stop(struct rig *r);
/* rig_stop without the seen array: call when done with it. */
void rig_free(struct rig *r);

#define RIG_QPN 0x4711u

#endif
