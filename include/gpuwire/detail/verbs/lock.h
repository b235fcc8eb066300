/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h: how CPU threads that share a send queue take turns. Included by verbs_device.h, after sq.h; names
 * that end in _ are private.
 *
 * A post reserves, writes and publishes under a lock, as with one owner. That takes one atomic operation, at
 * its beginning, when the stores of the last post have left the processor. Posting at once (ring.h) takes
 * three, each of which waits for the stores before it. On a GPU threads take no turns: hundreds of warps
 * would wait where they can reserve side by side.
 *
 * It has a cost. A thread that is not run while it has the lock holds up the others, which yield the
 * processor in the meantime. In the other way their requests would have to wait for its request, too; but
 * they could go on. So a queue pair may be made for that (GW_QP_LOCK_FREE).
 *
 * Warps and blocks: the first thread has the lock while all of them write. All are in the call by then, so
 * that none of them can be waiting for it elsewhere.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_LOCK_H
#define GPUWIRE_DETAIL_VERBS_LOCK_H

GW_HOT_FN int gw_sq_locked_(uint32_t qp_flags)
{
    return !GW_ON_GPU && (qp_flags & GW_LOCKED_) != 0; /* a GPU's handles never are */
}

/* What is added to a handle's flags for CPU threads, where these of gw_qp_flags were asked for. */
GW_FN uint32_t gw_sq_turns_(uint32_t asked)
{
    return asked & (GW_ONE_USER_ | GW_LOCK_FREE_) ? 0 : GW_LOCKED_;
}

/* After this time we believe that the thread with the lock will not be run any more. */
#define GW_SQ_LOCK_NS_ 4000000000u

GW_SLOW_FN int gw_sq_lock_wait_(struct gw_qp_handle *qp)
{
    uint64_t deadline = 0;
    uint32_t round = 0;

    do {
        gw_pause(round++);
        if (round % 64 == 0) {
            if (!deadline) deadline = gw_clock_ns() + GW_SQ_LOCK_NS_;
            if (gw_clock_ns() >= deadline) return -EAGAIN;
        }
    } while (gw_ld_relaxed_u32_gpu(&qp->sq_lock) || gw_exch_acquire_u32_gpu(&qp->sq_lock, 1));
    return 0;
}

/* 0: it is ours. -EAGAIN: another thread has not ended a post for GW_SQ_LOCK_NS_. Acquire: what the last one
 * did comes before what we do. */
GW_HOT_FN int gw_sq_lock_(struct gw_qp_handle *qp)
{
    return gw_exch_acquire_u32_gpu(&qp->sq_lock, 1) ? gw_sq_lock_wait_(qp) : 0;
}

/* Release: what we did, WQEs and record among it, comes before what the next one does. */
GW_HOT_FN void gw_sq_unlock_(struct gw_qp_handle *qp)
{
    GW_ASSERT(gw_ld_relaxed_u32_gpu(&qp->sq_lock) == 1);
    gw_st_release_u32_gpu(&qp->sq_lock, 0);
}

/* Everything up to `next` is reserved and written. Gives the lock back that reserving took. */
GW_HOT_FN void gw_sq_publish_locked_(const struct gw_sq_ *q, uint64_t next, uint32_t flags)
{
    GW_ASSERT(gw_ld_relaxed_u64_gpu(&q->qp->sq_resv) == next);
    if (flags & GW_DEFER) {
        gw_sq_unlock_(q->qp);
        return;
    }
    /* WQEs before the record: ours, and through the lock, which was acquired, what others have deferred. */
    gw_fence_release();
    gw_sq_doorbell_(q, next);
    gw_st_relaxed_u64_gpu(&q->qp->sq_rung, next);
    gw_sq_unlock_(q->qp);
    if (q->host) gw_cpu_rang_(q->host);
}

GW_SLOW_FN void gw_sq_ring_locked_(struct gw_qp_handle *qp)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t next = gw_ld_relaxed_u64_gpu(&qp->sq_resv);

    /* Both may be older than what others do now, but not than what we have deferred. */
    if (gw_ld_relaxed_u64_gpu(&qp->sq_rung) == next || gw_sq_lock_(qp)) return;
    next = gw_ld_relaxed_u64_gpu(&qp->sq_resv);
    if (gw_ld_relaxed_u64_gpu(&qp->sq_rung) == next)
        gw_sq_unlock_(qp);
    else
        gw_sq_publish_locked_(&q, next, 0);
}

#endif
