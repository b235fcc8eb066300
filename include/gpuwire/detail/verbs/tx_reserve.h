/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tx_reserve.h: how the fast calls of verbs_tx.h reserve. Included by verbs_device.h, after tx_write.h;
 * names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_TX_RESERVE_H
#define GPUWIRE_DETAIL_VERBS_TX_RESERVE_H

GW_FN void gw_tx_ring(struct gw_tx *tx)
{
    if (tx->q.flags & GW_ONE_USER_ && tx->rung == tx->next) return;
    gw_ring(tx->q.qp);
    if (tx->q.flags & GW_ONE_USER_) tx->rung = tx->next;
}

/* Does the queue have no room up to `end`, as far as this view knows? (Others may have completed more than
 * this view knows to be reserved.) */
GW_HOT_FN int gw_tx_full_(const struct gw_tx *tx, uint64_t end)
{
    return (int64_t)(end - tx->done) > (int64_t)tx->q.sq.wqebbs;
}

/* The queue seems full: is it? Looks at what others have retired, then at the CQ, until there is room up to
 * `end`. Returns how far the queue has completed. */
GW_SLOW_FN uint64_t gw_tx_look_(struct gw_qp_handle *qp, struct gw_cq_handle *cq, uint64_t end)
{
    uint64_t done;

    do {
        done = gw_ld_acquire_u64_gpu(&qp->sq_ci); /* acquire: as in gw_sq_reserve_ */
    } while ((int64_t)(end - done) > (int64_t)qp->sq.wqebbs && gw_cq_retire_(cq));
    return done;
}

/* Is there room for n more, also after a look at the CQ? 0, or why not. */
GW_HOT_FN int gw_tx_room_(struct gw_tx *tx, uint32_t n)
{
    int err;

    if (!gw_tx_full_(tx, tx->next + n)) return 0;
    tx->done = gw_tx_look_(tx->q.qp, tx->cq, tx->next + n);
    if (!gw_tx_full_(tx, tx->next + n)) return 0;
    /* The room may be waiting for a ring that was deferred. Of ours a ringer at work is told once: a thread
     * that keeps trying must not keep it from leaving. */
    if (tx->q.flags & GW_ONE_USER_) {
        gw_tx_ring(tx);
    } else {
        gw_sq_ring_(tx->q.qp, tx->run != tx->last);
        tx->run = tx->last;
    }
    if (n > tx->q.sq.wqebbs) return -EMSGSIZE;
    err = gw_tx_usable_(tx->q.qp);
    return err ? err : -EAGAIN;
}

/* With several posters: n are reserved at `at`, and there is room for them. */
GW_HOT_FN void gw_tx_kept_(struct gw_tx *tx, uint64_t at, uint32_t n)
{
    if (at != tx->last) tx->run = at;
    tx->next = at + n;
}

/* The same where there may be none. */
GW_HOT_FN int gw_tx_keep_(struct gw_tx *tx, uint64_t at, uint32_t n)
{
    if (gw_sq_keep_(&tx->q, at, n, &tx->done)) {
        /* Others have filled it. Adding and taking back all the time would be wasted, so assume that there is
         * no room for that number until something completes. */
        tx->next = tx->done + tx->q.sq.wqebbs - n + 1;
        return -EAGAIN;
    }
    gw_tx_kept_(tx, at, n);
    return 0;
}

/* In turn: the lock is kept when it returns 0. */
GW_HOT_FN int gw_tx_take_locked_(struct gw_tx *tx, uint32_t n, uint64_t *first)
{
    uint64_t at;
    int err = gw_sq_lock_(tx->q.qp);

    if (err) return err;
    at = gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv);
    if (!gw_sq_fits_(&tx->q, at, n, tx->done)) {
        tx->done = gw_ld_acquire_u64_gpu(&tx->q.qp->sq_ci); /* acquire: as in gw_sq_reserve_ */
        if (!gw_sq_fits_(&tx->q, at, n, tx->done)) {
            gw_sq_unlock_(tx->q.qp);
            tx->next = tx->done + tx->q.sq.wqebbs - n + 1; /* as in gw_tx_keep_ */
            return -EAGAIN;
        }
    }
    *first = at;
    tx->next = at + n;
    gw_st_relaxed_u64_gpu(&tx->q.qp->sq_resv, tx->next);
    return 0;
}

/* Reserves where there was room for n a moment ago. */
GW_HOT_FN int gw_tx_take_(struct gw_tx *tx, uint32_t n, uint64_t *first)
{
    if (gw_sq_locked_(tx->q.flags)) return gw_tx_take_locked_(tx, n, first);
    if (tx->q.flags & GW_ONE_USER_) {
        *first = tx->next;
        tx->next += n;
        return 0;
    }
    if (n > tx->q.sq.wqebbs) return -EAGAIN;
    *first = gw_sq_take_(&tx->q, n);
    return gw_tx_keep_(tx, *first, n);
}

#endif
