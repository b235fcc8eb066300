/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.h: what kernels call: post, poll, wait. The same source runs in CUDA kernels and on CPU
 * threads.
 *
 * There are two ways to post (docs/posting.md says which to use when). Operations (struct gw_op, verbs_op.h)
 * are the fast one. A program may post them through a view of the queue pair (gw_tx_post, verbs_tx.h): it
 * gets tickets, and the library polls. Or it posts them under names of its own (gw_post_op) and polls. The
 * compatible way is gw_post_send, gw_post_recv and gw_poll_cq. They take libibverbs' own structs and mean
 * what the ibv_ functions mean.
 *
 * One thread calls each function, and it acts for that thread, unless its name says _warp. None blocks,
 * except gw_wait_cq, which has a deadline. On a queue pair without GW_QP_ONE_POSTER any number of threads may
 * post at once, and on a CQ without GW_CQ_ONE_POLLER any number may poll. A queue pair and its CQs belong to
 * one executor: threads of one GPU, or CPU threads of one process.
 *
 * CPU threads that post to one queue pair take turns, as in ibv_post_send. A call then waits for the others
 * that are posting, for some seconds at most. Do not call from within a signal handler that has interrupted
 * one of them. If one of them does not run for that long, the call returns as if the queue were full. With
 * GW_QP_LOCK_FREE, and on a GPU, no call waits for another thread.
 *
 * Memory order. Posting: what the calling thread wrote before the call is visible to the NIC before the
 * request is. So is what other threads wrote, if it happened before the call; a barrier suffices. Rings carry
 * no more than that. Polling: when a call has returned a completion, everything that it announces is visible
 * to the calling thread. Lengths are bytes, times nanoseconds.
 *
 * The host makes the handles (gpuwire/verbs.h). To kernels they are opaque; their fields are here because the
 * functions are inline.
 */
#ifndef GPUWIRE_VERBS_DEVICE_H
#define GPUWIRE_VERBS_DEVICE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <gpuwire/kernel.h>
#include <gpuwire/mlx5.h>
#include <gpuwire/sync.h>
#include <gpuwire/detail/assert.h>
#include <gpuwire/detail/exec/turn.h>

#define GW_VERBS_VERSION 6
#define GW_HANDLE_BYTES  512 /* handles lie so far apart: no two share a line, or a sector of the next one */

struct gw_cq;
struct gw_qp;
struct gw_qp_handle;
struct gw_ah_handle;
struct gw_op;

/* A send WQE leaves this for its completion. There is one for each WQEBB; the WQE's first is used. */
struct gw_sq_slot {
    uint64_t wr_id;
    uint64_t end; /* index after the WQE's last WQEBB, and what detail/verbs/sq.h adds to it */
} __attribute__((aligned(16)));

/* Finds a CQE's queue pair: open addressing by QPN, 0 is free. Changed by the host before kernels start. */
struct gw_qp_entry {
    uint32_t qpn;
    uint32_t pad;
    struct gw_qp_handle *qp;
};

/* A poller flushes with it: detail/verbs/flush.h. */
struct gw_flush_handle {
    struct gw_qp_handle *qp; /* connected to itself */
    struct gw_cq_handle *cq; /* its completions, and no others */
    uint64_t at;             /* memory of the GPU: it READs the word there, into the one 64 bytes after it */
    uint32_t lkey, rkey;
    uint32_t failed; /* written by the poller */
    uint32_t pad;
};

struct gw_cq_handle {
    uint32_t size, version;
    uint32_t cqn;
    uint32_t flags; /* enum gw_cq_flags */
    uint8_t *cqe;   /* the ring; entries of 64 bytes */
    uint32_t cqes;  /* a power of two */
    uint32_t table_mask;
    struct gw_qp_entry *table;
    uint32_t *dbrec;
    struct gw_cq *host; /* on CPU threads: for sleeping and for NICs inside the process; else NULL */
    struct gw_flush_handle *flush; /* NULL: data is there when its completion is */
    uint32_t dead;                 /* written by the host: no completion will come any more */
    uint8_t pad0[52];

    /* Written by the poller. */
    uint32_t lock;
    uint32_t ci;      /* entries consumed */
    uint32_t dropped; /* entries of unknown queue pairs */
    uint8_t pad1[372];
} __attribute__((aligned(GW_HANDLE_BYTES)));

/* May a queue pair be posted to? */
enum gw_qp_state {
    GW_QP_READY = 0,
    GW_QP_NOT_CONNECTED = 1,
    GW_QP_FAULTED = 2,  /* an error completion has been polled; .fault says which */
    GW_QP_READY_UD = 3, /* for datagrams, and nothing else */
};

struct gw_qp_handle {
    uint32_t size, version;
    uint32_t flags; /* enum gw_qp_flags */
    uint32_t max_inline;
    struct gw_mlx5_sq sq;
    struct gw_mlx5_rq rq;
    uint32_t *dbrec;
    uint64_t *db; /* the NIC's register, or the doorbell proxy's mailbox */
    struct gw_sq_slot *slot;
    uint64_t *rq_wr_id;
    struct gw_qp *host; /* on CPU threads, when a ring must wake a thread of the process; else NULL */
    uint32_t max_send_sge, max_recv_sge;
    uint32_t rq_wqes;  /* receives that may be posted at once */
    uint32_t interval; /* WQEBBs between ticketed requests that are signalled; a power of two */
    struct gw_cq_handle *send_cq;
    uint32_t *rq_ready; /* detail/verbs/rq.h */
    uint64_t sink;      /* 8 bytes of the PD's, where unused answers go */
    uint32_t sink_lkey;
    uint32_t pad1;

    /* Written by threads that post sends. */
    uint64_t sq_resv; /* WQEBBs reserved so far */
    uint64_t sq_word; /* WQEBBs rung for, and who has yet to ring for others: see detail/verbs/ring.h */
    uint64_t sq_rung; /* where CPU threads take turns: WQEBBs rung for */
    uint32_t sq_lock; /* detail/verbs/lock.h */
    uint8_t pad2[84];

    /* Written by threads that post receives. */
    uint64_t rq_resv; /* receives reserved so far */
    /* receives that the record counts, and who has yet to write it: see detail/verbs/rq.h */
    uint64_t rq_word;
    uint8_t pad3[48];

    /* Written by the pollers of its CQs. */
    uint64_t sq_ci; /* WQEBBs that have completed */
    uint64_t sq_ok; /* those that have completed well */
    uint64_t rq_ci; /* receives that have completed */
    uint32_t state; /* enum gw_qp_state */
    uint32_t fault_claim;
    uint32_t fault_status, fault_syndrome, fault_vendor, fault_recv;
    uint32_t fault_index;
    uint64_t fault_wr_id;
    uint8_t pad4[60];
    uint32_t fetches; /* written by who posts a READ or atomic where a poller must know (GW_LATE_) */
} __attribute__((aligned(GW_HANDLE_BYTES)));

#ifdef __cplusplus
static_assert(sizeof(struct gw_cq_handle) == GW_HANDLE_BYTES, "handle size");
static_assert(sizeof(struct gw_qp_handle) == GW_HANDLE_BYTES, "handle size");
#else
static_assert(sizeof(struct gw_cq_handle) == GW_HANDLE_BYTES, "handle size");
static_assert(sizeof(struct gw_qp_handle) == GW_HANDLE_BYTES, "handle size");
#endif

/* ---- compatible calls ---------------------------------------------------------------------------------- */

/*
 * Posts the list `wr`, as ibv_post_send: 0, or a positive errno value. Then *bad_wr is the first request that
 * was not posted; those before it are posted. It takes SEND, SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE,
 * RDMA_WRITE_WITH_IMM, RDMA_READ and the two atomics; IBV_SEND_SIGNALED, FENCE, SOLICITED and INLINE. It
 * reads the payload of an inline request before it returns.
 *
 *   ENOMEM      the queue is full, or too many entries or inline bytes.
 *   EINVAL      not connected, or a request that makes no sense, such as an opcode that does not exist.
 *   EOPNOTSUPP  another opcode of libibverbs' (LOCAL_INV, BIND_MW, TSO, DRIVER1), or an atomic that the
 *               device does not have.
 *
 * On a UD queue pair wr.ud says where to (wr.ud.ah: gw_ibv_ah, verbs_ud.h). As libmlx5 it posts an opcode
 * there that is not SEND or SEND_WITH_IMM, and the NIC fails it: IBV_WC_LOC_QP_OP_ERR. More payload than the
 * port's MTU is IBV_WC_LOC_LEN_ERR.
 */
GW_FN int gw_post_send(struct gw_qp_handle *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* As ibv_post_recv: 0, or a positive errno value with *bad_wr the first that was not posted. ENOMEM: the
 * queue is full. EINVAL: too many entries, or one of 2 GiB or more. Also before the queue pair is connected.
 */
GW_FN int gw_post_recv(struct gw_qp_handle *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * As ibv_poll_cq: takes up to n completions and returns how many, 0 when there is none *or another thread is
 * polling*. After it has returned, everything that the completions announce is visible to the calling thread.
 * It sets pkey_index, slid, sl and dlid_path_bits to 0. For a datagram, src_qp is the sender's number.
 */
GW_FN int gw_poll_cq(struct gw_cq_handle *cq, int n, struct ibv_wc *wc);

/* ---- operations by name -------------------------------------------------------------------------------- */

enum gw_post_flags {
    GW_SIGNALED = GW_MLX5_SIGNALED,   /* complete with a CQE on success too */
    GW_SOLICITED = GW_MLX5_SOLICITED, /* the peer's CQE is a solicited event */
    GW_FENCED = GW_MLX5_FENCE,        /* start only when earlier READs and atomics are done */
    GW_DEFER = 0x100,                 /* do not ring: a post without it, or gw_ring, will */
};

/*
 * Posts one operation (verbs_op.h). Its completion carries wr_id and comes on a CQ that the program polls.
 * The buffer must stay as it is until the completion of this or of a later signalled request of the queue
 * pair. An operation of two requests (gw_with_signal) completes with the second; if the first one fails, its
 * completion carries the same wr_id. Returns
 *
 *   0            posted.
 *   `-EAGAIN`      the queue is full: poll the CQ and try again. Nothing was posted. There are
 *                  two more reasons. On a GPU where several threads post, the others may be asking for the
 *                  room at this moment. Of CPU threads that take turns, one may be stuck.
 *   `-ENOTCONN`    not connected.
 *   `-EIO`         the queue pair has failed: gw_qp_fault on the host says how.
 *   `-EOPNOTSUPP`  an atomic, and the device has none; a datagram (gw_send_to_op) on a connected queue pair;
 *                  or anything else on one for datagrams.
 */
GW_FN int gw_post_op(struct gw_qp_handle *qp, struct gw_op op, uint32_t flags, uint64_t wr_id);

/*
 * gw_post_op by a whole warp: each lane posts its own operation, all of one kind, with one reservation and
 * one doorbell. Every thread of the warp must call it; those with on == 0 post nothing. GW_DEFER must be the
 * same in all. All or none is posted, and every lane gets the same result: as gw_post_op, or -EMSGSIZE: more
 * requests than the queue holds at all.
 */
GW_DEV int gw_post_op_warp(struct gw_qp_handle *qp, int on, struct gw_op op, uint32_t flags, uint64_t wr_id);

/* Short for gw_post_op of gw_send_op(laddr, lkey, len). Returns as gw_post_op. */
GW_FN int gw_send(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags,
                  uint64_t wr_id);

/*
 * Posts n receives without a buffer (for WRITE_WITH_IMM); their completions carry wr_id. 0; -EAGAIN: not n
 * free, none was posted; -EMSGSIZE: more than the queue holds at all.
 *
 * Any number of threads may post receives at once, and do not wait for each other. A receive is in place for
 * the NIC when the threads that were posting before it have returned, too.
 */
GW_FN int gw_recv_empty(struct gw_qp_handle *qp, uint32_t n, uint64_t wr_id);
/* One receive into [laddr, laddr + len): 0; -EAGAIN: full; -EINVAL: 2 GiB or more. */
GW_FN int gw_recv(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint64_t wr_id);

/*
 * Rings for everything that was posted with GW_DEFER before the call; any thread may call it. This, or a post
 * without GW_DEFER, must follow a deferred request: what other threads have posted after it may have to wait
 * for that, too. Where CPU threads take turns, one of them may be stuck while it posts. Then the call gives
 * up after some seconds, and that thread's ring is for these requests, too.
 */
GW_FN void gw_ring(struct gw_qp_handle *qp);

/*
 * Polls until there is a completion, and returns how many it took, 1 to n. Errors:
 *
 *   `-ETIMEDOUT`  at the deadline, which is on this executor's clock: gw_clock_ns() + what it may take. With
 *                 deadline 0 it looks once: `-EAGAIN`;
 *   `-ECANCELED`  *stop became non-zero, or stop_fd readable (stop may be NULL, stop_fd -1);
 *   `-EIO`        the device or the queue has died, so that no completion will come (gw_device_open).
 *
 * CPU threads soon sleep, when the CQ was made with GW_CQ_SLEEP. A *stop alone does not wake them, stop_fd
 * does (in a loop's stage: &ctl->shared->stop, ctl->wake_fd). The GPU spins and ignores stop_fd.
 */
GW_FN int gw_wait_cq(struct gw_cq_handle *cq, int n, struct ibv_wc *wc, uint64_t deadline_ns,
                     const uint32_t *stop, int stop_fd);

/* The first error that a poller has seen on the queue pair since it was connected. */
struct gw_fault {
    uint32_t status;   /* enum ibv_wc_status; 0 (IBV_WC_SUCCESS): no error */
    uint32_t syndrome; /* as the CQE says */
    uint32_t vendor;
    uint32_t recv;      /* 1: a receive failed, 0: a send */
    uint32_t wqe_index; /* of the send queue, in WQEBBs mod 2^16 */
    uint32_t pad;
    uint64_t wr_id; /* of a ticketed request its ticket; if of a put with signal the put failed, one less */
};
/* Fills *fault and returns 1, or returns 0: no error. Any thread, at any time; acquire: a thread that sees
 * the error sees all of it. The error stays until gw_qp_reset. */
GW_FN int gw_fault_of(const struct gw_qp_handle *qp, struct gw_fault *fault);

/* A completion's immediate in host order. */
GW_FN uint32_t gw_wc_imm(const struct ibv_wc *wc)
{
    return gw_be32(wc->imm_data);
}

#include <gpuwire/verbs_set.h>
#include <gpuwire/detail/verbs/sq.h>
#include <gpuwire/detail/verbs/doorbell.h>
#include <gpuwire/detail/verbs/lock.h>
#include <gpuwire/detail/verbs/reserve.h>
#include <gpuwire/detail/verbs/ring.h>
#include <gpuwire/verbs_ud.h>
#include <gpuwire/verbs_op.h>
#include <gpuwire/detail/verbs/op.h>
#include <gpuwire/detail/verbs/post.h>
#include <gpuwire/detail/verbs/cq.h>
#include <gpuwire/detail/verbs/flush.h>
#include <gpuwire/detail/verbs/rq.h>
#include <gpuwire/detail/verbs/ud.h>
#include <gpuwire/detail/verbs/wr.h>
#include <gpuwire/verbs_tx.h>
#include <gpuwire/detail/verbs/tx_write.h>
#include <gpuwire/detail/verbs/tx_reserve.h>
#include <gpuwire/detail/verbs/tx_post.h>
#include <gpuwire/detail/verbs/tx_wait.h>

#endif
