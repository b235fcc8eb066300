/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_impl.h: how verbs_device.h posts and polls. Included by it, behind verbs_sq.h, which says what is
 * ordered for whom; names that end in _ are private.
 */
#ifndef GPUWIRE_VERBS_IMPL_H
#define GPUWIRE_VERBS_IMPL_H

/* ---- room in a queue ----------------------------------------------------------------------------------- */

/*
 * Reserves n entries of a queue of `size`, of which *resv were reserved and *done completed so far, and
 * returns 0 and the first one's index, or -EAGAIN: at a moment during the call n were not free. It waits for
 * nobody: it begins anew only when another thread has reserved meanwhile.
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

/* ---- calls that name their requests -------------------------------------------------------------------- */

#ifdef __CUDACC__
/* Is there no room for n? Acquire: what is done is not older than what is reserved. */
GW_SLOW_FN int gw_sq_full_(struct gw_qp_handle *qp, uint32_t n)
{
    uint64_t at = gw_ld_acquire_u64_gpu(&qp->sq_resv);

    return (int64_t)(at + n - gw_ld_acquire_u64_gpu(&qp->sq_ci)) > (int64_t)qp->sq.wqebbs;
}

/*
 * Where hundreds of blocks post to one queue, a compare-and-swap would fail most of the time, so a GPU adds
 * (gw_sq_reserve_), and looks before whether that may be in vain. -EAGAIN then also means: there is no room for this
 * and for what others try to reserve at this moment, and perhaps take back.
 */
GW_FN int gw_sq_add_(const struct gw_sq_ *q, uint32_t n, uint64_t *first)
{
    uint64_t at = gw_ld_relaxed_u64_gpu(&q->qp->sq_resv), ci;

    /* Acquire: as in gw_sq_reserve_. */
    ci = gw_ld_acquire_u64_gpu(&q->qp->sq_ci);
    if (n > q->sq.wqebbs) return -EAGAIN;
    /* Signed: as in gw_reserve_. The two may be of different moments, so if it seems full it is looked at again. */
    if ((int64_t)(at + n - ci) > (int64_t)q->sq.wqebbs && gw_sq_full_(q->qp, n)) return -EAGAIN;
    return gw_sq_reserve_(q, n, &ci, first);
}
#endif

/* Reserves n WQEBBs, as gw_reserve_ does. */
GW_HOT_FN int gw_sq_room_(const struct gw_sq_ *q, uint32_t n, uint64_t *first)
{
#ifdef __CUDACC__
    if (!(q->flags & GW_ONE_USER_)) return gw_sq_add_(q, n, first);
#endif
    return gw_reserve_(&q->qp->sq_resv, &q->qp->sq_ci, q->sq.wqebbs, q->flags & GW_ONE_USER_, n, first);
}

GW_HOT_FN int gw_qp_usable_(const struct gw_qp_handle *qp)
{
    uint32_t state = gw_ld_relaxed_u32_gpu(&qp->state);

    if (state == GW_QP_READY) return 0;
    return state == GW_QP_FAULTED ? -EIO : state == GW_QP_READY_UD ? -EOPNOTSUPP : -ENOTCONN;
}

GW_HOT_FN uint32_t gw_ctrl_flags_(uint32_t qp_flags, uint32_t flags)
{
    flags &= GW_SIGNALED | GW_SOLICITED | GW_FENCED;
    return qp_flags & GW_SIGNAL_ALL_ ? flags | GW_SIGNALED : flags;
}

GW_HOT_FN int gw_post_rdma_(struct gw_qp_handle *qp, uint32_t opcode, uint64_t laddr, uint32_t lkey,
                            uint64_t raddr, uint32_t rkey, uint32_t len, uint32_t imm_be, uint32_t flags,
                            uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at, claim;
    int err = gw_qp_usable_(qp);

    if (!err) err = gw_sq_room_(&q, 1, &at);
    if (err) return err;
    claim = gw_sq_claim_(&q, at, flags);
    gw_mlx5_put_rdma(&q.sq, (uint32_t)at, opcode, gw_ctrl_flags_(q.flags, flags), imm_be, raddr, rkey, laddr,
                     len, lkey);
    gw_sq_slot_(&q, at, 1, wr_id);
    gw_sq_publish_(&q, at, 1, 1, flags, claim, 0);
    return 0;
}

GW_FN int gw_put(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                 uint32_t len, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len, 0, flags, wr_id);
}

GW_FN int gw_put_imm(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                     uint32_t len, uint32_t imm, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_WRITE_IMM, laddr, lkey, raddr, rkey, len, gw_be32(imm), flags, wr_id);
}

GW_FN int gw_get(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                 uint32_t len, uint32_t flags, uint64_t wr_id)
{
    return gw_post_rdma_(qp, GW_MLX5_READ, laddr, lkey, raddr, rkey, len, 0, flags, wr_id);
}

GW_FN int gw_send(struct gw_qp_handle *qp, uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags,
                  uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at, claim;
    int err = gw_qp_usable_(qp);

    if (!err) err = gw_sq_room_(&q, 1, &at);
    if (err) return err;
    claim = gw_sq_claim_(&q, at, flags);
    gw_mlx5_put_send(&q.sq, (uint32_t)at, GW_MLX5_SEND, gw_ctrl_flags_(q.flags, flags), 0, laddr, len, lkey);
    gw_sq_slot_(&q, at, 1, wr_id);
    gw_sq_publish_(&q, at, 1, 1, flags, claim, 0);
    return 0;
}

GW_DEV int gw_put_warp(struct gw_qp_handle *qp, int on, uint64_t laddr, uint32_t lkey, uint64_t raddr,
                       uint32_t rkey, uint32_t len, int with_imm, uint32_t imm, uint32_t flags,
                       uint64_t wr_id)
{
    uint32_t mask = gw_warp_all(), posting = gw_ballot(mask, on), n = gw_popcount(posting);
    struct gw_sq_ q = gw_sq_of_(qp);
    uint64_t at = 0, claim = 0, mine;
    int err = 0;

    if (!n) return 0;
    if (gw_lane() == 0) {
        err = n > q.sq.wqebbs ? -EMSGSIZE : gw_qp_usable_(qp);
        if (!err) err = gw_sq_room_(&q, n, &at);
    }
    err = (int)gw_shfl_u32(mask, (uint32_t)err, 0);
    at = gw_shfl_u64(mask, at, 0);
    if (err) return err;
    if (gw_lane() == 0) claim = gw_sq_claim_(&q, at, flags);
    if (on) {
        mine = at + gw_popcount(posting & ((1u << gw_lane()) - 1));
        gw_mlx5_put_rdma(&q.sq, (uint32_t)mine, with_imm ? GW_MLX5_WRITE_IMM : GW_MLX5_WRITE,
                         gw_ctrl_flags_(q.flags, flags), with_imm ? gw_be32(imm) : 0, raddr, rkey, laddr, len,
                         lkey);
        gw_sq_slot_(&q, mine, 1, wr_id);
    }
    /* All lanes' WQEs happen before lane 0 goes on; its fence in publishing then stands behind them too. */
    gw_syncwarp(mask);
    if (gw_lane() == 0) gw_sq_publish_(&q, at, 1, n, flags, claim, 0);
    return 0;
}

/* ---- completions --------------------------------------------------------------------------------------- */

GW_FN uint32_t gw_wc_status_(uint32_t syndrome)
{
    switch (syndrome) {
    case GW_MLX5_SYND_LOCAL_LENGTH: return IBV_WC_LOC_LEN_ERR;
    case GW_MLX5_SYND_LOCAL_QP_OP: return IBV_WC_LOC_QP_OP_ERR;
    case GW_MLX5_SYND_LOCAL_PROT: return IBV_WC_LOC_PROT_ERR;
    case GW_MLX5_SYND_FLUSHED: return IBV_WC_WR_FLUSH_ERR;
    case GW_MLX5_SYND_BIND: return IBV_WC_MW_BIND_ERR;
    case GW_MLX5_SYND_BAD_RESP: return IBV_WC_BAD_RESP_ERR;
    case GW_MLX5_SYND_LOCAL_ACCESS: return IBV_WC_LOC_ACCESS_ERR;
    case GW_MLX5_SYND_REM_INV_REQ: return IBV_WC_REM_INV_REQ_ERR;
    case GW_MLX5_SYND_REM_ACCESS: return IBV_WC_REM_ACCESS_ERR;
    case GW_MLX5_SYND_REM_OP: return IBV_WC_REM_OP_ERR;
    case GW_MLX5_SYND_RETRY_EXC: return IBV_WC_RETRY_EXC_ERR;
    case GW_MLX5_SYND_RNR_EXC: return IBV_WC_RNR_RETRY_EXC_ERR;
    case GW_MLX5_SYND_ABORTED: return IBV_WC_REM_ABORT_ERR;
    default: return IBV_WC_GENERAL_ERR;
    }
}

GW_FN struct gw_qp_handle *gw_cq_find_(const struct gw_cq_handle *cq, uint32_t qpn)
{
    uint32_t i = qpn * 2654435769u >> 8;

    for (; cq->table[i & cq->table_mask].qpn; i++)
        if (cq->table[i & cq->table_mask].qpn == qpn) return cq->table[i & cq->table_mask].qp;
    return NULL;
}

/* Keeps the first error of a queue pair. Pollers of its two CQs may meet here: who claims it writes it. */
GW_FN void gw_qp_fail_(struct gw_qp_handle *qp, const struct gw_mlx5_wc *c, uint64_t wr_id)
{
    if (gw_cas_relaxed_u32_gpu(&qp->fault_claim, 0, 1)) return;
    qp->fault_status = gw_wc_status_(c->syndrome);
    qp->fault_syndrome = c->syndrome;
    qp->fault_vendor = c->vendor;
    qp->fault_recv = c->opcode == GW_MLX5_CQE_RESP_ERR;
    qp->fault_index = c->wqe_counter;
    qp->fault_wr_id = wr_id;
    /* Release, to the system because the host reads it too: who sees the state sees the whole fault. */
    gw_st_release_u32(&qp->state, GW_QP_FAULTED);
}

GW_FN int gw_fault_of(const struct gw_qp_handle *qp, struct gw_fault *fault)
{
    if (gw_ld_acquire_u32(&qp->state) != GW_QP_FAULTED) return 0;
    fault->status = qp->fault_status;
    fault->syndrome = qp->fault_syndrome;
    fault->vendor = qp->fault_vendor;
    fault->recv = qp->fault_recv;
    fault->wqe_index = qp->fault_index;
    fault->pad = 0;
    fault->wr_id = qp->fault_wr_id;
    return 1;
}

GW_FN void gw_wc_fill_(struct ibv_wc *wc, const struct gw_mlx5_wc *c)
{
    wc->status = (enum ibv_wc_status)(gw_mlx5_wc_is_error(c) ? gw_wc_status_(c->syndrome) : IBV_WC_SUCCESS);
    wc->opcode = IBV_WC_SEND;
    wc->vendor_err = c->vendor;
    wc->byte_len = c->byte_cnt;
    wc->imm_data = c->imm_be;
    wc->qp_num = c->qpn;
    wc->src_qp = c->src_qp;
    wc->wc_flags = 0;
    wc->pkey_index = 0;
    wc->slid = 0;
    wc->sl = 0;
    wc->dlid_path_bits = 0;
    if (c->opcode == GW_MLX5_CQE_REQ || c->opcode == GW_MLX5_CQE_REQ_ERR) {
        switch (c->wqe_opcode) {
        case GW_MLX5_WRITE_IMM:
            wc->wc_flags = IBV_WC_WITH_IMM;
            wc->opcode = IBV_WC_RDMA_WRITE;
            break;
        case GW_MLX5_WRITE: wc->opcode = IBV_WC_RDMA_WRITE; break;
        case GW_MLX5_SEND_IMM: wc->wc_flags = IBV_WC_WITH_IMM; break;
        case GW_MLX5_READ: wc->opcode = IBV_WC_RDMA_READ; break;
        case GW_MLX5_ATOMIC_CS:
        case GW_MLX5_MASKED_CS:
            wc->opcode = IBV_WC_COMP_SWAP;
            wc->byte_len = 8;
            break;
        case GW_MLX5_ATOMIC_FA:
        case GW_MLX5_MASKED_FA:
            wc->opcode = IBV_WC_FETCH_ADD;
            wc->byte_len = 8;
            break;
        default: break;
        }
        return;
    }
    wc->opcode = c->opcode == GW_MLX5_CQE_RESP_WR_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (c->opcode == GW_MLX5_CQE_RESP_WR_IMM || c->opcode == GW_MLX5_CQE_RESP_SEND_IMM)
        wc->wc_flags = IBV_WC_WITH_IMM;
    else if (c->opcode == GW_MLX5_CQE_RESP_SEND_INV)
        wc->wc_flags = IBV_WC_WITH_INV, wc->invalidated_rkey = gw_be32(c->imm_be);
    if (c->grh) wc->wc_flags |= IBV_WC_GRH;
}

/* Stores behind a release fence. On CPU threads the store releases once more: see gw_dbrec_store_. */
GW_FN void gw_st_fenced_u64_gpu_(void *p, uint64_t v)
{
#ifdef __CUDACC__
    gw_st_relaxed_u64_gpu(p, v);
#else
    gw_st_release_u64_gpu(p, v);
#endif
}

/* How a send request ended: well; as the first to fail, so that all before it went well; or it was only flushed. */
enum gw_sq_end_ { GW_OK_, GW_FAILED_, GW_FLUSHED_ };

/* The send WQE with this number and all before it are done: room for posters, and for waiters how far tickets
 * are good. Returns what names the request. */
GW_FN uint64_t gw_sq_retire_(struct gw_qp_handle *qp, uint32_t counter, enum gw_sq_end_ how)
{
    uint64_t wr_id, end, begins, ci = gw_ld_relaxed_u64_gpu(&qp->sq_ci);

    gw_ld_relaxed_2u64(&qp->slot[counter & (qp->sq.wqebbs - 1)], &wr_id, &end);
    ci += (counter - ci) & 0xffff; /* where the WQE begins */
    begins = ci;
    if (gw_sq_slot_of_(end, ci)) {
        ci += (end - ci) & GW_SLOT_END_;
    } else {
        ci++; /* no word: a ticketed request, whose ticket this is */
        wr_id = ci;
    }
    /* Release: our reads of the slot and of the entry come before the poster that sees the room overwrites them; and
     * the data that the entry announces before the waiter that sees its ticket. */
#ifdef __CUDACC__
    gw_fence_gpu();
#endif
    if (how != GW_FLUSHED_) gw_st_fenced_u64_gpu_(&qp->sq_ok, how == GW_OK_ ? ci : begins);
    gw_st_fenced_u64_gpu_(&qp->sq_ci, ci);
    return wr_id;
}

/* Takes one entry that is ours: retires what it stands for. 1: *wc tells it; 0: it belongs to no queue pair
 * (any more). */
GW_FN int gw_cq_take_(struct gw_cq_handle *cq, const struct gw_mlx5_cqe *cqe, struct ibv_wc *wc)
{
    struct gw_mlx5_wc c;
    struct gw_qp_handle *qp;
    uint64_t wr_id;

    if (gw_mlx5_cqe_parse(cqe, &c)) return 0;
    qp = gw_cq_find_(cq, c.qpn);
    if (!qp) return 0;
    if (c.opcode == GW_MLX5_CQE_REQ || c.opcode == GW_MLX5_CQE_REQ_ERR) {
        wr_id = gw_sq_retire_(qp, c.wqe_counter,
                              c.opcode == GW_MLX5_CQE_REQ          ? GW_OK_
                              : c.syndrome == GW_MLX5_SYND_FLUSHED ? GW_FLUSHED_
                                                                   : GW_FAILED_);
    } else {
        uint64_t at = gw_ld_relaxed_u64_gpu(&qp->rq_ci); /* receives complete in order */

        wr_id = gw_ld_relaxed_u64(&qp->rq_wr_id[at & (qp->rq.wqes - 1)]);
        gw_st_release_u64_gpu(&qp->rq_ci, at + 1); /* as above */
    }
    gw_wc_fill_(wc, &c);
    wc->wr_id = wr_id;
    if (gw_mlx5_wc_is_error(&c)) gw_qp_fail_(qp, &c, wr_id);
    return 1;
}

GW_FN const struct gw_mlx5_cqe *gw_cq_entry_(const struct gw_cq_handle *cq, uint32_t ci)
{
    return (const struct gw_mlx5_cqe *)(cq->cqe + (size_t)(ci & (cq->cqes - 1)) * GW_MLX5_CQE);
}

GW_FN int gw_cq_ready_(const struct gw_cq_handle *cq, uint32_t ci)
{
    /* Acquire: the owner byte before the entry's other bytes, and before the payload that the entry
     * announces. (A load and not a fence after a batch of them: on a GPU it costs next to nothing, and a
     * fence half a microsecond.) */
    return gw_mlx5_cqe_ready(gw_ld_acquire_u8(&gw_cq_entry_(cq, ci)->op_own), ci, cq->cqes);
}

/* Makes the caller the poller, unless another thread is: what there is, is being taken then. Acquire: what the
 * last poller did comes first. */
GW_FN int gw_cq_enter_(struct gw_cq_handle *cq)
{
    return cq->flags & GW_ONE_USER_ || !gw_exch_acquire_u32_gpu(&cq->lock, 1);
}

/* Release: what the poller did comes before the next one. */
GW_FN void gw_cq_leave_(struct gw_cq_handle *cq)
{
    if (!(cq->flags & GW_ONE_USER_)) gw_st_release_u32_gpu(&cq->lock, 0);
}

/* Entries up to ci are taken; `drop` of them were nobody's. */
GW_FN void gw_cq_taken_(struct gw_cq_handle *cq, uint32_t ci, uint32_t drop)
{
    if (drop) cq->dropped += drop;
    gw_st_relaxed_u32_gpu(&cq->ci, ci);
    /* Relaxed would do for the NIC: the CQ cannot overrun, so it reuses an entry only after its queue
     * pair's room was released above. On CPU threads release, which is free: gw_qp_reset takes it for a
     * sign that we are done with those entries. */
    if (cq->host)
        gw_st_release_u32(&cq->dbrec[GW_MLX5_DBREC_CQ_CI], gw_mlx5_cq_ci_be(ci));
    else
        gw_st_relaxed_u32(&cq->dbrec[GW_MLX5_DBREC_CQ_CI], gw_mlx5_cq_ci_be(ci));
}

/* As gw_poll_cq; without wc the completions are retired and not told. */
GW_FN int gw_cq_consume_(struct gw_cq_handle *cq, int n, struct ibv_wc *wc)
{
    struct ibv_wc untold;
    uint32_t ci, ready = 0, i, drop = 0;
    int got = 0;

    if (cq->host && !gw_cq_ready_(cq, gw_ld_relaxed_u32_gpu(&cq->ci))) gw_cpu_nudge_(cq->host);
    if (!gw_cq_enter_(cq)) return 0;
    ci = gw_ld_relaxed_u32_gpu(&cq->ci);
    while (n > 0 && ready < (uint32_t)n && ready < cq->cqes && gw_cq_ready_(cq, ci + ready)) ready++;
    for (i = 0; i < ready; i++) {
        int is = gw_cq_take_(cq, gw_cq_entry_(cq, ci + i), wc ? wc + got : &untold);

        got += is;
        drop += !is;
    }
    if (ready) gw_cq_taken_(cq, ci + ready, drop);
    gw_cq_leave_(cq);
    return got;
}

#ifdef __CUDACC__
/*
 * Takes one entry and tells nobody. A good completion of a send is told by the last 8 bytes of its entry alone,
 * owner byte and all: one load across the bus, which takes a GPU a microsecond, instead of one for the owner and one
 * for the rest. (What wrote the entry wrote these before the owner, or with it.)
 */
GW_FN int gw_cq_retire_one_(struct gw_cq_handle *cq)
{
    uint32_t ci = gw_ld_relaxed_u32_gpu(&cq->ci);
    const struct gw_mlx5_cqe *cqe = gw_cq_entry_(cq, ci);
    uint64_t tail = gw_ld_acquire_u64(&cqe->wqe_opcode_qpn_be); /* acquire: as in gw_cq_ready_ */
    struct gw_qp_handle *qp;
    struct ibv_wc untold;
    int is;

    if (!gw_mlx5_cqe_ready((uint8_t)(tail >> 56), ci, cq->cqes)) return 0;
    if (tail >> 60 == GW_MLX5_CQE_REQ) {
        qp = gw_cq_find_(cq, gw_be32((uint32_t)tail) & 0xffffff);
        is = qp != NULL;
        if (is) gw_sq_retire_(qp, gw_be16((uint16_t)(tail >> 32)), GW_OK_);
    } else {
        is = gw_cq_take_(cq, cqe, &untold);
    }
    gw_cq_taken_(cq, ci + 1, !is);
    return is;
}
#endif

/* For the fast calls, which look rarely and tell nobody. One entry at a time: to look whether there is a
 * second one costs a GPU a microsecond across the bus. */
GW_SLOW_FN int gw_cq_retire_(struct gw_cq_handle *cq)
{
#ifdef __CUDACC__
    int got;

    if (!gw_cq_enter_(cq)) return 0;
    got = gw_cq_retire_one_(cq);
    gw_cq_leave_(cq);
    return got;
#else
    return gw_cq_consume_(cq, 1, NULL);
#endif
}

GW_FN int gw_poll_cq(struct gw_cq_handle *cq, int n, struct ibv_wc *wc)
{
    return gw_cq_consume_(cq, n, wc);
}

#define GW_WAIT_SPIN_NS_ 20000 /* a CPU thread looks so long before it sleeps: what a wake-up costs */

GW_FN int gw_wait_cq(struct gw_cq_handle *cq, int n, struct ibv_wc *wc, uint64_t deadline_ns,
                     const uint32_t *stop, int stop_fd)
{
    uint64_t start = gw_clock_ns(), now = start;
    uint32_t round;
    int got;

    for (round = 0;; round++) {
        got = gw_poll_cq(cq, n, wc);
        if (got) return got;
        /* On a GPU the stop word is a microsecond away, across the bus, so it is not looked at each time. */
        if (stop && (cq->host || round % 32 == 0) && gw_ld_relaxed_u32(stop)) return -ECANCELED;
        if (now >= deadline_ns) return 0;
        if (!cq->host || now - start < GW_WAIT_SPIN_NS_) {
            gw_pause(round);
        } else {
            got = gw_cpu_sleep_(cq->host, deadline_ns, stop, stop_fd);
            if (got < 0) return got;
        }
        now = gw_clock_ns();
    }
}

#endif
