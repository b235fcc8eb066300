/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve.h: how room in a queue is reserved. Included by verbs_device.h, after sq.h; names that end in _
 * are private.
 *
 * Two ways. gw_reserve_ compares and swaps, and refuses only where there is no room; gw_sq_reserve_ adds,
 * which never fails under contention, and takes back what was too much. Where posters take turns neither is
 * atomic: gw_sq_room_ and gw_tx_take_ then take the lock, and publishing gives it back.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_RESERVE_H
#define GPUWIRE_DETAIL_VERBS_RESERVE_H

/*
 * Reserves n entries of a queue of `size`, of which *resv were reserved and *done completed so far. Returns 0
 * and the first one's index. Returns -EAGAIN if at a moment during the call n were not free. It never waits:
 * it starts again only when another thread has reserved in between.
 */
GW_HOT_FN int gw_reserve_(uint64_t *resv, const uint64_t *done, uint32_t size, uint32_t one_user, uint32_t n,
                          uint64_t *first)
{
    /* Relaxed, so that a GPU need not wait for it before it asks what is done. */
    uint64_t at = gw_ld_relaxed_u64_gpu(resv), ci;
    int in_order = 0;

    if (n > size) return -EAGAIN;
    for (;; at = gw_ld_acquire_u64_gpu(resv), in_order = 1) {
        /* Acquire: the poller's reads of what lies in the freed entries' slots come before our overwriting
         * them. */
        ci = gw_ld_acquire_u64_gpu(done);
        /* Signed: more may be done by now than was reserved then. */
        if ((int64_t)(at + n - ci) > (int64_t)size) {
            /* Full, if what is done was looked at last: it may not be older than what is reserved. */
            if (in_order) return -EAGAIN;
            continue;
        }
        if (one_user)
            gw_st_relaxed_u64_gpu(resv, at + n);
        else if (gw_cas_relaxed_u64_gpu(resv, at, at + n) != at)
            continue;
        *first = at;
        return 0;
    }
}

/* ---- by adding: sends that get tickets, and all of a GPU's --------------------------------------------- */

/*
 * Takes back the reservation of n WQEBBs at `at`, unless there is room for it by now. Returns the count of
 * completed WQEBBs by which it did or did not. It works from the top down only. A thread below waits for
 * room, or for those above it, all of which are taking theirs back too. If one above has found room since,
 * there is room for this one. (Less reserved than that: a thread has reset the queue pair, which is forbidden
 * while threads post; but it must not hang them.)
 */
GW_SLOW_FN uint64_t gw_sq_take_back_(struct gw_qp_handle *qp, uint64_t at, uint32_t n)
{
    uint32_t round = 0;

    for (;; gw_pause(round++)) {
        /* Acquire: the poller's reads of the freed slots come before our overwriting them. */
        uint64_t seen = gw_ld_acquire_u64_gpu(&qp->sq_ci);

        if (at + n - seen <= qp->sq.wqebbs) return seen;
        if (gw_cas_relaxed_u64_gpu(&qp->sq_resv, at + n, at) <= at + n) return seen;
    }
}

/*
 * Reserves n WQEBBs and returns 0 and the first one's index, or -EAGAIN. Never waits for completions. The
 * caller has seen *seen completed WQEBBs (with acquire order); the count is read again only when the queue
 * looks full by it. With several users it adds first and looks then, because an addition never fails under
 * contention as compare-and-swap does. If there was no room it takes the addition back.
 */
GW_HOT_FN uint64_t gw_sq_take_(const struct gw_sq_ *q, uint32_t n)
{
    return gw_add_relaxed_u64_gpu(&q->qp->sq_resv, n + gw_each_lane_());
}

GW_HOT_FN int gw_sq_fits_(const struct gw_sq_ *q, uint64_t at, uint32_t n, uint64_t seen)
{
    return at + n - seen <= q->sq.wqebbs;
}

/* After gw_sq_take_, whose answer is `at`. */
GW_HOT_FN int gw_sq_keep_(const struct gw_sq_ *q, uint64_t at, uint32_t n, uint64_t *seen)
{
    if (gw_sq_fits_(q, at, n, *seen)) return 0;
    *seen = gw_sq_take_back_(q->qp, at, n);
    return gw_sq_fits_(q, at, n, *seen) ? 0 : -EAGAIN;
}

GW_HOT_FN int gw_sq_reserve_(const struct gw_sq_ *q, uint32_t n, uint64_t *seen, uint64_t *first)
{
    if (n > q->sq.wqebbs) return -EAGAIN;
    *first = gw_sq_take_(q, n);
    return gw_sq_keep_(q, *first, n, seen);
}

#ifdef __CUDACC__
/* Is there no room for n? Acquire: what is done is not older than what is reserved. */
GW_SLOW_FN int gw_sq_full_(struct gw_qp_handle *qp, uint32_t n)
{
    uint64_t at = gw_ld_acquire_u64_gpu(&qp->sq_resv);

    return (int64_t)(at + n - gw_ld_acquire_u64_gpu(&qp->sq_ci)) > (int64_t)qp->sq.wqebbs;
}

/*
 * Where hundreds of blocks post to one queue, a compare-and-swap would fail most of the time. So a GPU adds
 * (gw_sq_reserve_), and looks first whether that may fail. Then -EAGAIN has a second meaning: there is
 * no room for this together with what others try to reserve at this moment, and perhaps take back.
 */
GW_FN int gw_sq_add_(const struct gw_sq_ *q, uint32_t n, uint64_t *first)
{
    uint64_t at = gw_ld_relaxed_u64_gpu(&q->qp->sq_resv), ci;

    /* Acquire: as in gw_sq_reserve_. */
    ci = gw_ld_acquire_u64_gpu(&q->qp->sq_ci);
    if (n > q->sq.wqebbs) return -EAGAIN;
    /* Signed: as in gw_reserve_. The two may be of different moments, so if it seems full it is looked at
     * again. */
    if ((int64_t)(at + n - ci) > (int64_t)q->sq.wqebbs && gw_sq_full_(q->qp, n)) return -EAGAIN;
    return gw_sq_reserve_(q, n, &ci, first);
}
#endif

/* In turn: the lock is kept when it returns 0. */
GW_HOT_FN int gw_sq_room_locked_(const struct gw_sq_ *q, uint32_t n, uint64_t *first)
{
    int err = gw_sq_lock_(q->qp);

    if (err) return err;
    err = gw_reserve_(&q->qp->sq_resv, &q->qp->sq_ci, q->sq.wqebbs, 1, n, first);
    if (err) gw_sq_unlock_(q->qp);
    return err;
}

/* Reserves n WQEBBs, as gw_reserve_ does. */
GW_HOT_FN int gw_sq_room_(const struct gw_sq_ *q, uint32_t n, uint64_t *first)
{
    if (gw_sq_locked_(q->flags)) return gw_sq_room_locked_(q, n, first);
#ifdef __CUDACC__
    if (!(q->flags & GW_ONE_USER_)) return gw_sq_add_(q, n, first);
#endif
    return gw_reserve_(&q->qp->sq_resv, &q->qp->sq_ci, q->sq.wqebbs, q->flags & GW_ONE_USER_, n, first);
}

#endif
