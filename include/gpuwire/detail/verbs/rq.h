/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rq.h: how receives are reserved, published and posted. Included by verbs_device.h, after reserve.h; names
 * that end in _ are private.
 *
 * A receive needs no ring: the NIC reads the record when a message comes. So what is written must be counted
 * by the record in the order of the queue, and not before it is written.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_RQ_H
#define GPUWIRE_DETAIL_VERBS_RQ_H

GW_FN int gw_rq_reserve_(struct gw_qp_handle *qp, uint32_t n, uint64_t *first)
{
    return gw_reserve_(&qp->rq_resv, &qp->rq_ci, qp->rq_wqes, qp->flags & GW_ONE_USER_, n, first);
}

/* ---- several posters ----------------------------------------------------------------------------------- */

/*
 * One word says how far the record counts and who writes it, so that both change at once:
 *
 *   63…32  receives counted (mod 2^32)
 *   31…1   how often its writer was asked since it has last looked; not 0: there is one
 *   0      a poster may have left with ready receives after a hole: the one that fills it asks
 *
 * The first to ask has the role. It lays the role down with a CAS, which fails if anybody has asked since it
 * looked: then it looks again. So no thread waits for another: receives whose predecessors are still being
 * written are left to the one that writes them last. (As for sends, ring.h, where there are rings in
 * addition; the model is tests/verbs/rq.pml.)
 *
 * rq_ready[i] tells the writer how many receives are ready from index i on, where a reservation begins there;
 * 0: not said. The writer clears what it has heard: before its record, hence before the index comes round
 * again.
 */
#define GW_RQ_ASK_  ((uint64_t)2)
#define GW_RQ_HOLE_ ((uint64_t)1)

GW_FN uint64_t gw_rq_idle_(uint64_t counted)
{
    return counted << 32;
}

/*
 * Takes the role for what has just been reserved at `first`, if everything before is counted and the role is
 * free. Called before the receives are written; what it returns is for gw_rq_publish_. Relaxed: the fence
 * there acquires.
 */
GW_FN uint64_t gw_rq_claim_(struct gw_qp_handle *qp, uint64_t first)
{
    uint64_t idle = gw_rq_idle_(first);

    return qp->flags & GW_ONE_USER_ ? idle : gw_cas_relaxed_u64_gpu(&qp->rq_word, idle, idle + GW_RQ_ASK_);
}

/* The index up to which everything from `from` on is ready. */
GW_FN uint32_t gw_rq_hear_(struct gw_qp_handle *qp, uint32_t from)
{
    uint32_t at = from, n, *ready;

    while (at - from < qp->rq_wqes) {
        ready = &qp->rq_ready[at & (qp->rq.wqes - 1)];
        n = gw_ld_relaxed_u32_gpu(ready);
        if (!n) break;
        gw_st_relaxed_u32_gpu(ready, 0);
        at += n;
    }
    GW_ASSERT(at - from <= qp->rq_wqes);
    return at;
}

/* The writer goes on: others have asked since it has last looked, at which time the record counted `end`;
 * seen: the word as it is now. */
GW_SLOW_FN void gw_rq_write_more_(struct gw_qp_handle *qp, uint64_t seen, uint32_t end)
{
    uint64_t word, stay, leave;
    uint32_t from;

    do {
        /* The role is ours still, and their asking is heard. Acquire: what they have said. */
        stay = gw_rq_idle_(end) + GW_RQ_ASK_ - seen;
        word = gw_add_acquire_u64_gpu(&qp->rq_word, stay) + stay;
        from = end;
        end = gw_rq_hear_(qp, from);
        /* What is reserved beyond may be ready already. */
        leave = gw_rq_idle_(end) | ((uint32_t)gw_ld_relaxed_u64_gpu(&qp->rq_resv) != end ? GW_RQ_HOLE_ : 0);
        if (end != from) {
            /* Others' receives: only a fence after having heard of them, and which acquires, makes them
             * precede our record. */
            gw_fence_acq_rel();
            gw_dbrec_store_(qp->dbrec, GW_MLX5_DBREC_RECV, end);
        }
        /* Release: our record precedes the next writer's. */
        seen = gw_cas_release_u64_gpu(&qp->rq_word, word, leave);
    } while (seen != word);
}

/* Says that the n receives from `first` on are ready, and writes the record unless another thread is writing
 * it. */
GW_SLOW_FN void gw_rq_say_ready_(struct gw_qp_handle *qp, uint32_t first, uint32_t n)
{
    uint64_t word;

    gw_st_relaxed_u32_gpu(&qp->rq_ready[first & (qp->rq.wqes - 1)], n);
    /* Release: what is said before the asking. Acquire: the last writer's record comes before ours. */
    word = gw_add_acq_rel_u64_gpu(&qp->rq_word, GW_RQ_ASK_);
    if ((uint32_t)word < GW_RQ_ASK_) gw_rq_write_more_(qp, word + GW_RQ_ASK_, (uint32_t)(word >> 32));
}

/* Publishes the n receives from `first` on, which are written. claim: gw_rq_claim_'s answer. */
GW_FN void gw_rq_publish_(struct gw_qp_handle *qp, uint64_t first, uint32_t n, uint64_t claim)
{
    uint64_t word = gw_rq_idle_(first) + GW_RQ_ASK_, seen;

    GW_ASSERT(gw_ld_relaxed_u64_gpu(&qp->rq_resv) >= first + n && n <= qp->rq_wqes);
    if (qp->flags & GW_ONE_USER_) {
        /* Receives before the record: the NIC takes them as soon as it sees the count. */
        gw_fence_release();
        gw_dbrec_store_(qp->dbrec, GW_MLX5_DBREC_RECV, (uint32_t)first + n);
        return;
    }
    /* Release: as above, for the writer of the record. Acquire, when claimed: the last writer's comes before
     * ours. */
    gw_fence_acq_rel();
    if (claim != gw_rq_idle_(first)) {
        gw_rq_say_ready_(qp, (uint32_t)first, n);
        return;
    }
    gw_dbrec_store_(qp->dbrec, GW_MLX5_DBREC_RECV, (uint32_t)first + n);
    /* Release: our record precedes the next writer's. */
    seen = gw_cas_release_u64_gpu(&qp->rq_word, word, gw_rq_idle_(first + n));
    if (seen != word) gw_rq_write_more_(qp, seen, (uint32_t)first + n);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* One receive of num_sge entries, each shorter than 2 GiB. 0 or -EAGAIN. */
GW_FN int gw_rq_post_(struct gw_qp_handle *qp, const struct gw_mlx5_sge *sge, uint32_t num_sge,
                      uint64_t wr_id)
{
    uint64_t at, claim;
    int err = gw_rq_reserve_(qp, 1, &at);

    if (err) return err;
    claim = gw_rq_claim_(qp, at);
    gw_mlx5_put_recv(&qp->rq, (uint32_t)at, sge, num_sge, qp->max_recv_sge);
    gw_st_relaxed_u64(&qp->rq_wr_id[at & (qp->rq.wqes - 1)], wr_id);
    gw_rq_publish_(qp, at, 1, claim);
    return 0;
}

GW_FN int gw_recv(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint64_t wr_id)
{
    struct gw_mlx5_sge sge;

    sge.addr = laddr;
    sge.length = len;
    sge.lkey = lkey;
    return len >> 31 ? -EINVAL : gw_rq_post_(qp, &sge, 1, wr_id);
}

GW_FN int gw_recv_empty(struct gw_qp_handle *qp, uint32_t n, uint64_t wr_id)
{
    uint64_t at, claim;
    uint32_t i;
    int err = n > qp->rq_wqes ? -EMSGSIZE : n ? gw_rq_reserve_(qp, n, &at) : 0;

    if (err || !n) return err;
    claim = gw_rq_claim_(qp, at);
    for (i = 0; i < n; i++) {
        gw_mlx5_put_recv(&qp->rq, (uint32_t)at + i, NULL, 0, qp->max_recv_sge);
        gw_st_relaxed_u64(&qp->rq_wr_id[(at + i) & (qp->rq.wqes - 1)], wr_id);
    }
    gw_rq_publish_(qp, at, n, claim);
    return 0;
}

GW_FN int gw_post_recv(struct gw_qp_handle *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    for (; wr; wr = wr->next) {
        uint32_t i, bad = wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->max_recv_sge;

        for (i = 0; !bad && i < (uint32_t)wr->num_sge; i++) bad = wr->sg_list[i].length >> 31;
        if (bad ||
            gw_rq_post_(qp, (const struct gw_mlx5_sge *)wr->sg_list, (uint32_t)wr->num_sge, wr->wr_id)) {
            *bad_wr = wr;
            return bad ? EINVAL : ENOMEM;
        }
    }
    return 0;
}

#endif
