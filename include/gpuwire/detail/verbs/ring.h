/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h: how what was posted to a send queue is published and rung for; why, and what must be ordered, is
 * said in sq.h. Included by verbs_device.h, after reserve.h; names that end in _ are private.
 * (tests/verbs/sq.pml is the model of it.)
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_RING_H
#define GPUWIRE_DETAIL_VERBS_RING_H

/*
 * One word says how far the queue has been rung for and who rings, so that both change at once:
 *
 *   63…36  WQEBBs rung for (mod 2^28)
 *   35…17  rings asked for since the ringer has last looked; not 0: a ringer is at work
 *   1      gw_ring was called since then
 *   0      a poster may have left with ready WQEs unrung after a hole: the one that fills it rings
 *
 * The ringer alone moves 63…36. It takes the role by being the first to ask. It lays the role down with a
 * CAS, which fails if anybody has asked since it looked: then it looks again. Hence no thread waits for
 * another thread's WQEs: a reservation whose predecessors are still being written is left to the one that
 * writes them last. No count overflows: between two looks at most a queue of reservations (2^15) asks, and
 * gw_ring, which may be called any number of times, sets a bit.
 *
 * A poster that defers does not ask, because that would be an atomic operation for each request. It says what
 * is ready in the slot alone, and looks whether it was a hole. That look may come too early, since nothing
 * keeps our store before our load; then the others' later requests are rung for together with what was
 * deferred.
 */
#define GW_SQ_RUNG_  36
#define GW_SQ_ASK_   ((uint64_t)1 << 17)
#define GW_SQ_AGAIN_ ((uint64_t)2)
#define GW_SQ_HOLE_  ((uint64_t)1)
#define GW_SQ_LOW_   (((uint64_t)1 << GW_SQ_RUNG_) - 1)
#define GW_SQ_COUNT_ (GW_SQ_LOW_ >> 8) /* of a count, what the word holds */

GW_FN uint64_t gw_sq_idle_(uint64_t rung)
{
    return rung << GW_SQ_RUNG_;
}

/*
 * The role is given up after the ring. The next ringer's ring then follows ours, as its record follows our
 * record. The NIC may look at the index in the ring, and not at the record alone. An older ring that arrived
 * later would then take it back. (rdma-core orders rings for this reason, in its post_send_db.) Two stores of
 * two threads to one register: the first thread's fence and the second one's acquiring it order them. Both
 * are threads of one GPU, so the GPU's scope will do, which waits for less than the system's. On CPU threads
 * the release of the operation is enough. A register that is mapped write-combining was flushed after the
 * ring.
 */
GW_HOT_FN uint64_t gw_sq_lay_down_(struct gw_qp_handle *qp, uint64_t word, uint64_t leave)
{
#ifdef __CUDACC__
    gw_fence_gpu();
    return gw_cas_relaxed_u64_gpu(&qp->sq_word, word, leave);
#else
    return gw_cas_release_u64_gpu(&qp->sq_word, word, leave);
#endif
}

/* The index up to which everything from `from` on is ready. Many words at a time, in the hope that
 * reservations are of the same size: with many posters what the ringer can look at sets the pace. */
#define GW_SQ_LOOK_ 16

GW_FN uint64_t gw_sq_scan_(const struct gw_sq_ *q, uint64_t from)
{
    uint64_t at = from, end = from + q->sq.wqebbs, w[GW_SQ_LOOK_];
    uint32_t step = 1, n, i;

    while (at < end) {
        for (i = 0; i < GW_SQ_LOOK_; i++)
            w[i] = gw_ld_relaxed_u64_gpu(&q->slot[(at + i * step) & (q->sq.wqebbs - 1)].end);
        n = gw_sq_ready_(w[0], at);
        if (!n) break;
        at += n;
        if (n == step)
            for (i = 1; i < GW_SQ_LOOK_ && at < end && gw_sq_ready_(w[i], at) == step; i++) at += step;
        step = n;
    }
    return at;
}

/* How to leave when everything up to `end` has been rung for: something is reserved beyond, and whether it is
 * ready already we cannot know. */
GW_FN uint64_t gw_sq_leave_(const struct gw_sq_ *q, uint64_t end)
{
    return gw_sq_idle_(end) | (gw_ld_relaxed_u64_gpu(&q->qp->sq_resv) != end ? GW_SQ_HOLE_ : 0);
}

/* The ringer goes on, for others have asked since it has last looked. At that time everything up to `end` was
 * rung for. The state is now `seen`. */
GW_SLOW_FN void gw_sq_ring_more_(struct gw_qp_handle *qp, uint64_t seen, uint64_t end)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t word, stay, leave, from;

    do {
        /* The role is ours still, and their asking is heard. Acquire: their slots' words. */
        stay = gw_sq_idle_(end) + GW_SQ_ASK_ - seen;
        word = gw_add_acquire_u64_gpu(&qp->sq_word, stay) + stay;
        /* Set since `seen`: it must not stay, or who sets it from now on changes nothing, and is not heard.
         */
        if (word & GW_SQ_AGAIN_) word = gw_and_acquire_u64_gpu(&qp->sq_word, ~GW_SQ_AGAIN_) & ~GW_SQ_AGAIN_;
        from = end;
        end = gw_sq_scan_(&q, from);
        leave = gw_sq_leave_(&q, end);
        if (end != from) {
            /* Others' WQEs: only a fence after having read their words, and which acquires, makes them
             * precede our record. */
            gw_fence_acq_rel();
            gw_sq_doorbell_(&q, end);
        }
        seen = gw_sq_lay_down_(qp, word, leave);
    } while (seen != word);
    if (q.host) gw_cpu_rang_(q.host);
}

/* Rings for our own, everything up to `end`, after a release fence; `word` is the state that our claim has
 * made. */
GW_HOT_FN void gw_sq_ring_claimed_(const struct gw_sq_ *q, uint64_t word, uint64_t end)
{
    uint64_t seen;

    gw_sq_doorbell_(q, end);
    seen = gw_sq_lay_down_(q->qp, word, gw_sq_idle_(end));
    if (seen != word)
        gw_sq_ring_more_(q->qp, seen, end);
    else if (q->host)
        gw_cpu_rang_(q->host);
}

/* Asks for a ring, and rings unless another thread is ringing. */
GW_SLOW_FN void gw_sq_ask_(struct gw_qp_handle *qp)
{
    /* Release: our slot's word before the asking. Acquire: the last ringer's record and ring, and the words
     * of all who have asked before, come before what we do. */
    uint64_t word = gw_add_acq_rel_u64_gpu(&qp->sq_word, GW_SQ_ASK_), rung;

    if ((word & GW_SQ_LOW_) >= GW_SQ_ASK_) return;
    /* All that has been rung for was reserved, and less than 2^28 before all that is. */
    rung = gw_ld_relaxed_u64_gpu(&qp->sq_resv);
    rung -= (rung - (word >> GW_SQ_RUNG_)) & GW_SQ_COUNT_;
    gw_sq_ring_more_(qp, word + GW_SQ_ASK_, rung);
}

/* Says to the ringer that what we have reserved is ready. After a release fence. */
GW_HOT_FN void gw_sq_ready_to_(struct gw_sq_slot *slot, uint64_t first, uint32_t bbs, uint32_t n)
{
    gw_st_relaxed_u64_gpu(&slot->end, gw_sq_slot_word_(first + bbs) | (uint64_t)n << GW_SLOT_READY_);
}

/* The same, and makes sure that a thread rings. */
GW_SLOW_FN void gw_sq_say_ready_(struct gw_qp_handle *qp, uint64_t first, uint32_t bbs, uint32_t n)
{
    gw_sq_ready_to_(&qp->slot[first & (qp->sq.wqebbs - 1)], first, bbs, n);
    gw_sq_ask_(qp);
}

GW_HOT_FN void gw_sq_defer_(const struct gw_sq_ *q, uint64_t first, uint32_t bbs, uint32_t n)
{
    /* Release: our WQEs before our saying that they are ready. A thread that reads of it may ring, and the
     * NIC read them at once. */
    gw_fence_release();
    gw_sq_ready_to_(&q->slot[first & (q->sq.wqebbs - 1)], first, bbs, n);
    if (gw_ld_relaxed_u64_gpu(&q->qp->sq_word) & GW_SQ_HOLE_) gw_sq_ask_(q->qp);
}

/*
 * Takes the ringer's role for what was reserved after `run`, if everything before that is rung for and the
 * role is free; gw_sq_idle_(run): taken. Others who ask until we ring leave theirs to us. Relaxed: a fence
 * after it acquires what the last ringer did.
 */
GW_HOT_FN uint64_t gw_sq_claim_(const struct gw_sq_ *q, uint64_t run)
{
    uint64_t idle = gw_sq_idle_(run);

    return gw_cas_relaxed_u64_gpu(&q->qp->sq_word, idle, idle + GW_SQ_ASK_);
}

/*
 * Publishes the n WQEBBs from first on, of which `bbs` are the first WQE's, and rings unless told to defer.
 * This thread's own WQEs from `run` to first are all ready and deferred; with run == first there are none.
 * When this very thread rang last, it rang for everything up to `ours`. Returns whether it has rung. (Seven
 * arguments: it is inlined.)
 */
GW_HOT_FN int gw_sq_publish_run_(const struct gw_sq_ *q, uint64_t run, uint64_t first, uint32_t bbs,
                                 uint32_t n, uint32_t flags, uint64_t ours)
{
    uint64_t claim;

    /* Others may take back what they have reserved behind ours, and no more. */
    GW_ASSERT(gw_ld_relaxed_u64_gpu(&q->qp->sq_resv) >= first + n && first - run <= q->sq.wqebbs);
    if (flags & GW_DEFER) {
        gw_sq_defer_(q, first, bbs, n);
        return 0;
    }
    /* In front of the fence, so that on a GPU the answer comes while the WQEs travel. The lanes that wait for
     * the fence must ask, in one stretch of code. Otherwise the compiler makes them wait where paths meet. */
    claim = gw_sq_claim_(q, run);
    /* Release: our WQEs before our publishing them, as when deferred. Acquire, when claimed: the last
     * ringer's record and ring come before ours; if those were ours too, they do so anyway. */
    if (ours == run)
        gw_fence_release();
    else
        gw_fence_acq_rel();
    if (claim != gw_sq_idle_(run)) {
        gw_sq_say_ready_(q->qp, first, bbs, n);
        return 0;
    }
    gw_sq_ring_claimed_(q, gw_sq_idle_(run) + GW_SQ_ASK_, first + n);
    return 1;
}

/* The same for calls that name their requests, also with one owner. */
GW_HOT_FN void gw_sq_publish_(const struct gw_sq_ *q, uint64_t first, uint32_t bbs, uint32_t n,
                              uint32_t flags)
{
    if (gw_sq_locked_(q->flags))
        gw_sq_publish_locked_(q, first + n, flags);
    else if (!(q->flags & GW_ONE_USER_))
        (void)gw_sq_publish_run_(q, first, first, bbs, n, flags, ~first);
    else if (!(flags & GW_DEFER))
        gw_sq_ring_alone_(q, first + n);
}

/* Rings for what is ready. sure: a ringer at work has to look once more; else it is left to its leaving. */
GW_SLOW_FN void gw_sq_ring_(struct gw_qp_handle *qp, int sure)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t word;

    if (q.flags & GW_ONE_USER_) {
        gw_sq_ring_alone_(&q, gw_ld_relaxed_u64_gpu(&qp->sq_resv));
        return;
    }
    if (gw_sq_locked_(q.flags)) {
        gw_sq_ring_locked_(qp);
        return;
    }
    word = gw_ld_relaxed_u64_gpu(&qp->sq_word);
    /* All that is reserved has been rung for, what we have deferred among it. */
    if (word >> GW_SQ_RUNG_ == (gw_ld_relaxed_u64_gpu(&qp->sq_resv) & GW_SQ_COUNT_)) return;
    /* A ringer at work may have looked before our slots said that they are ready, and must look again; if it
     * has left by now, we ring. Release: the slots' words before the bit. */
    if ((word & GW_SQ_LOW_) >= GW_SQ_ASK_ &&
        (!sure || (gw_or_acq_rel_u64_gpu(&qp->sq_word, GW_SQ_AGAIN_) & GW_SQ_LOW_) >= GW_SQ_ASK_))
        return;
    gw_sq_ask_(qp);
}

GW_FN void gw_ring(struct gw_qp_handle *qp)
{
    gw_sq_ring_(qp, 1);
}

#endif
