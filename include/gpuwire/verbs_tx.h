/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_tx.h: views and tickets: the fast way to post. Included by verbs_device.h; names that end in _ are
 * private.
 *
 * A thread opens a *view* of a queue pair once (struct gw_tx, a local variable, whose fields the compiler
 * keeps in registers) and posts operations (verbs_op.h) through it. Each post returns a 64-bit *ticket*,
 * which never wraps. Tickets of a queue pair complete in order. The library decides which requests are
 * signalled, and when it looks at the CQ: only when the queue seems full, and while a thread waits.
 *
 *     struct gw_tx tx;
 *     uint64_t t;
 *     int err = gw_tx_open(&tx, qp);
 *
 *     if (!err) err = gw_tx_post(&tx, gw_put_op(laddr, lkey, raddr, rkey, len), GW_DEFER, NULL);
 *     if (!err) err = gw_tx_post(&tx, gw_fetch_add_op(old, lkey, counter, rkey, 1), 0, &t);
 *
 *     if (!err) err = gw_tx_wait(&tx, t, gw_clock_ns() + 1000000);
 *
 * Forms. Every thread of a warp calls the _warp form, each with its own operation; all operations are of one
 * kind, and the flags are the same. There is one reservation and one doorbell for all. The _block form does
 * the same for a block. Every form posts all or nothing and returns the same value in every thread. A thread
 * with on == 0 takes part, and posts nothing.
 *
 * One owner. With GW_QP_ONE_POSTER one view is open at a time, and posting takes no atomic operation. (A
 * warp's or block's threads count as one: thread 0's view holds the state.) Without it any number of threads
 * have views.
 *
 * The send CQ of a queue pair that is posted to with tickets is the library's. Do not call gw_poll_cq on it,
 * nor mix in gw_post_send or gw_post_op: their completions would be lost. Receives go to another CQ.
 *
 * Lengths are bytes, times nanoseconds on the executor's clock (gw_clock_ns).
 *
 * Memory order: as gw_post_op's. When gw_tx_wait has returned 0, the request's local buffer may be reused.
 * Everything that the request has fetched is then visible to the calling thread, and in the _warp and _block
 * forms to all.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_VERBS_TX_H
#define GPUWIRE_VERBS_TX_H

struct gw_tx {
    uint32_t size, version;
    struct gw_sq_ q;
    struct gw_cq_handle *cq;
    uint64_t mask; /* signal interval - 1 */
    uint64_t next; /* with one owner: WQEBBs reserved; else how many at least */
    uint64_t done; /* completions that this view has seen, good or not */
    uint64_t ok;   /* good ones */
    uint64_t last; /* the last ticket */
    uint64_t run;  /* with several posters: all from here to `last` was reserved by this view, and deferred */
    uint64_t rung; /* with one owner: rung for up to here; else where our own last ring for ours ended */
    uint64_t marked; /* the last ticket that is signalled because we said so */
};

/*
 * Opens a view, of a connected queue pair or of one for datagrams. One thread. 0; -ENOTCONN: not connected.
 * -EIO: the queue pair has failed; -EINVAL: the handle is of another version of this header. A view holds
 * nothing and needs no closing. After gw_qp_reset open a new one.
 */
GW_FN int gw_tx_open(struct gw_tx *tx, struct gw_qp_handle *qp);

/*
 * Posts one operation and returns 0 and its ticket (ticket may be NULL), or
 *
 *   `-EAGAIN`      the queue is full, also after a look at the CQ: try again. Nothing was posted.
 *   `-EIO`         the queue pair has failed. A post notices that when the queue seems full: until then posts
 *                  return 0 and their tickets fail.
 *   `-ENOTCONN`    it was reset; noticed at the same time.
 *   `-EMSGSIZE`    more requests than the queue holds at all.
 *   `-EOPNOTSUPP`  an atomic, and the device has none; gw_send_to_op on a connected queue pair; or gw_send_op
 *                  on one for datagrams. (All else on one for datagrams is posted, and its ticket fails:
 *                  IBV_WC_LOC_QP_OP_ERR.)
 *
 * flags: GW_DEFER, GW_FENCED, GW_SOLICITED; GW_SIGNALED for a request that a thread will wait for soon. It
 * waits for nothing but, among CPU threads, its turn (verbs_device.h). One of three must follow a post with
 * GW_DEFER, and rings for it: a post without it, gw_tx_ring, or a wait (see gw_ring).
 */
GW_FN int gw_tx_post(struct gw_tx *tx, struct gw_op op, uint32_t flags, uint64_t *ticket);
GW_DEV int gw_tx_post_warp(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket);
GW_DEV int gw_tx_post_block(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket);

/* Rings for what was deferred. One thread. */
GW_FN void gw_tx_ring(struct gw_tx *tx);

/*
 * Waits until the request with this ticket, and all before it, are complete. The ticket may be another
 * thread's. 0, or
 *
 *   `-EIO`        it was not executed, or not wholly (gw_qp_fault on the host says why);
 *   `-ETIMEDOUT`  the deadline has passed;
 *   `-EAGAIN`     the same with deadline 0, which looks once;
 *   `-EINVAL`     no such ticket.
 *
 * deadline_ns: gw_clock_ns() + what it may take; in the past: one look. A wait for a request that is not
 * signalled posts an empty one after it. _warp, _block: all wait for the highest of the threads' tickets.
 */
GW_FN int gw_tx_wait(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_tx_wait_warp(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_tx_wait_block(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);

/* Waits for everything that was posted through this view, and returns as gw_tx_wait does: 0, -EIO,
 * -ETIMEDOUT or -EAGAIN. In a warp or block: by thread 0 for all. */
GW_FN int gw_tx_flush(struct gw_tx *tx, uint64_t deadline_ns);

#endif
