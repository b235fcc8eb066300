/* SPDX-License-Identifier: Apache-2.0 */
/* What the host and the serving kernels share: one record per session, and the request in work.
 *
 * Two kinds of memory. `gw_serve_notice` lies in host memory that both sides see: the host writes it when a
 * session opens or closes, the kernel answers in `seen`. `gw_serve_session` and `gw_serve_work` lie in the
 * executor's own memory: only kernels touch them once the loop runs, so that serving a request reads nothing
 * across the bus but the request itself.
 */
#ifndef GW_SERVE_SHARED_H
#define GW_SERVE_SHARED_H

#include <stdint.h>

#include <gpuwire/loop.h>
#include <gpuwire/model.h>
#include <gpuwire/verbs_device.h>

#include "src/serve/layout.h"

enum gw_serve_state {
    GW_SESSION_FREE = 0,   /* the kernel does not touch it */
    GW_SESSION_OPEN = 1,   /* the kernel answers its requests; its receives were posted before */
    GW_SESSION_CLOSING = 2 /* the kernel lets go of it */
};

/* Host to kernel. The host fills the fields, then release-stores `word`, then bumps
 * gw_serve_board.changes. An opened session needs no such bump: its first request makes the kernel look
 * at the notice. */
struct gw_serve_notice {
    uint32_t word; /* generation << 2 | enum gw_serve_state */
    uint32_t seen; /* kernel: the last word it has acted on, 0 at first */
    uint32_t slots;
    uint32_t reply_rkey;
    uint64_t reply_addr;
    uint64_t reply_stride;
    uint32_t ask;      /* host: bumped to ask whether the session is alive */
    uint32_t heard;    /* kernel: the last `ask` it has acted on, after taking what had arrived before */
    uint32_t activity; /* kernel: requests that came and answers that left since the session was opened */
    uint32_t reserved[5];
};

struct gw_serve_board {
    uint32_t changes; /* host: bumped after any notice was written */
    uint32_t broken;  /* kernel: bumped when a session's queue pair failed; the host then asks gw_qp_fault */
    uint64_t answered, refused; /* kernel: totals since the loop started */
    uint64_t failed;            /* kernel: answered with GW_SERVE_FAILED */
    uint32_t reserved[8];
};

/* The kernel's own record of a session. The host fills the first part before the loop starts. */
struct gw_serve_session {
    struct gw_qp_handle *qp;
    const uint8_t *in; /* slot 0: request header, input tensor */
    uint8_t *out;      /* slot 0: reply header, output tensor */
    uint64_t out_addr; /* of slot 0, as the NIC names it */
    uint32_t out_lkey;

    uint32_t word; /* the notice's word that it has acted on */
    uint32_t open, slots, reply_rkey;
    uint32_t heard;    /* the notice's `ask` that it has acted on */
    uint32_t activity; /* as in the notice */
    uint32_t posted;   /* answers since it was opened: every so many are signalled */
    uint32_t acked;    /* how many of them the peer's NIC has acknowledged, as far as completions have told */
    uint64_t reply_addr, reply_stride;
};

/* A request that a completion has announced and that waits for the model. */
struct gw_serve_arrival {
    uint64_t when;
    uint32_t session, slot, bytes;
    uint32_t reserved;
};

/* The request that the loop's stages work on. */
struct gw_serve_work {
    uint32_t valid; /* 0: the loop is stopping, the stages behind do nothing of note */
    uint32_t session, slot;
    int32_t failed; /* the model's error, CPU only */
    uint32_t rows, reserved;
    uint64_t id, arrived, started, done;
    uint32_t changes;    /* gw_serve_board.changes as last acted on */
    uint32_t head, tail; /* of the arrivals: counts, modulo the ring's size */
    uint64_t answered, refused, failures;
    uint64_t last_post_ns; /* what posting the last answer took */
};

/* Everything a serving kernel gets. */
struct gw_serve_args {
    struct gw_loop_ctl *ctl;
    struct gw_cq_handle *cq;
    struct gw_serve_board *board;   /* host memory */
    struct gw_serve_notice *notice; /* host memory, one per session */
    struct gw_serve_session *session;
    struct gw_serve_work *work;
    struct gw_serve_arrival
        *arrival; /* a ring that holds sessions * slots: no more receives are ever posted */
    struct gw_plan_io *io;
    struct gw_layout in, out; /* the tensors of a slot */
    uint64_t in_stride, out_stride;
    uint32_t sessions;
    uint32_t rows;         /* of a request at most */
    uint32_t slots;        /* each session has at most; its send queue holds so many answers */
    int32_t wake_fd;       /* CPU: readable when the loop is to end or a session opens; GPU: -1 */
    uint32_t arrival_mask; /* the ring's size, a power of two, less 1 */
};

#endif
