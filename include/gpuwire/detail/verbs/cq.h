/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cq.h: how completions are polled, told, and retired. Included by verbs_device.h, after sq.h, which says
 * what is ordered and why; names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_CQ_H
#define GPUWIRE_DETAIL_VERBS_CQ_H

GW_SLOW_FN uint32_t gw_wc_status_(uint32_t syndrome)
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

GW_FN struct gw_qp_handle *gw_cq_find_(const struct gw_qp_entry *table, uint32_t mask, uint32_t qpn)
{
    uint32_t i = qpn * 2654435769u >> 8;
    struct gw_qp_entry e; /* read at once */

    for (e = table[i & mask]; e.qpn; e = table[++i & mask])
        if (e.qpn == qpn) return e.qp;
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
    wc->status = (enum ibv_wc_status)(gw_mlx5_wc_is_error(c) ? gw_wc_status_(c->syndrome) : 0);
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

/* Stores after a release fence. On CPU threads the store releases once more: see gw_dbrec_store_. */
GW_FN void gw_st_fenced_u64_gpu_(void *p, uint64_t v)
{
#ifdef __CUDACC__
    gw_st_relaxed_u64_gpu(p, v);
#else
    gw_st_release_u64_gpu(p, v);
#endif
}

/* How a send request ended: well; as the first to fail, so that all before it went well; or it was only
 * flushed. */
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
    /* Release: our reads of the slot and of the entry come before the poster that sees the room overwrites
     * them. And the data that the entry announces comes before the waiter that sees its ticket. */
#ifdef __CUDACC__
    gw_fence_gpu();
#endif
    if (how != GW_FLUSHED_) gw_st_fenced_u64_gpu_(&qp->sq_ok, how == GW_OK_ ? ci : begins);
    gw_st_fenced_u64_gpu_(&qp->sq_ci, ci);
    return wr_id;
}

/* Data that may not be where the completion says: an error, of the queue pair too. */
GW_FN void gw_cq_spoil_(struct gw_mlx5_wc *c)
{
    if (gw_mlx5_wc_is_error(c)) return;
    c->opcode = c->opcode == GW_MLX5_CQE_REQ ? GW_MLX5_CQE_REQ_ERR : GW_MLX5_CQE_RESP_ERR;
    c->syndrome = GW_MLX5_SYND_LOCAL_ACCESS;
    c->vendor = 0;
}

/* Takes one entry that is ours: retires what it stands for. 1: *wc tells it; 0: it belongs to no queue pair
 * (any more). spoilt: its data may be missing. */
GW_FN int gw_cq_take_(struct gw_cq_handle *cq, const struct gw_mlx5_cqe *cqe, struct ibv_wc *wc, int spoilt)
{
    struct gw_mlx5_wc c;
    struct gw_qp_handle *qp;
    uint64_t wr_id;

    if (gw_mlx5_cqe_parse(cqe, &c)) return 0;
    qp = gw_cq_find_(cq->table, cq->table_mask, c.qpn);
    if (!qp) return 0;
    if (spoilt) gw_cq_spoil_(&c);
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
    int ready = gw_mlx5_cqe_ready(gw_ld_acquire_u8(&gw_cq_entry_(cq, ci)->op_own), ci, cq->cqes);

    if (ready) gw_fence_from_device_();
    return ready;
}

/* Makes the caller the poller, unless another thread is: what there is, is being taken then. Acquire: what
 * the last poller did comes first. */
GW_FN int gw_cq_enter_(struct gw_cq_handle *cq)
{
    return cq->flags & GW_ONE_USER_ || !gw_exch_acquire_u32_gpu(&cq->lock, 1);
}

/* Release: what the poller did comes before the next one. */
GW_FN void gw_cq_leave_(struct gw_cq_handle *cq)
{
    if (!(cq->flags & GW_ONE_USER_)) gw_st_release_u32_gpu(&cq->lock, 0);
}

/* Entries up to ci are taken; `drop` of them belonged to no queue pair. */
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

/* Does the entry announce data? A receive does, and so may any completion of a send once the queue pair has
 * fetched (it retires all requests before it, signalled or not). */
GW_FN int gw_cq_brings_(const struct gw_cq_handle *cq, uint32_t ci)
{
    const struct gw_mlx5_cqe *cqe = gw_cq_entry_(cq, ci);
    uint32_t opcode = gw_ld_relaxed_u8(&cqe->op_own) >> 4;
    const struct gw_qp_handle *qp;

    if (opcode >= GW_MLX5_CQE_RESP_WR_IMM && opcode <= GW_MLX5_CQE_RESP_SEND_INV) return 1;
    if (opcode != GW_MLX5_CQE_REQ) return 0;
    qp = gw_cq_find_(cq->table, cq->table_mask,
                     gw_be32(gw_ld_relaxed_u32(&cqe->wqe_opcode_qpn_be)) & 0xffffff);
    return qp && gw_ld_relaxed_u32_gpu(&qp->fetches);
}

GW_SLOW_FN int gw_flush_(struct gw_flush_handle *f); /* flush.h */

/* Of the n entries from ci on: is their data where they say? 0: it is now. */
GW_FN int gw_cq_settle_(struct gw_cq_handle *cq, struct gw_flush_handle *flush, uint32_t ci, uint32_t n)
{
    uint32_t i;

    GW_NO_UNROLL_
    for (i = 0; i < n; i++)
        if (gw_cq_brings_(cq, ci + i)) return gw_flush_(flush);
    return 0;
}

/* As gw_poll_cq; without wc the completions are retired and not told. */
GW_FN int gw_cq_consume_(struct gw_cq_handle *cq, int n, struct ibv_wc *wc)
{
    struct ibv_wc untold;
    uint32_t ci, ready = 0, i, drop = 0;
    int got = 0, spoilt = 0;

    if (cq->host && !gw_cq_ready_(cq, gw_ld_relaxed_u32_gpu(&cq->ci))) gw_cpu_nudge_(cq->host);
    if (!gw_cq_enter_(cq)) return 0;
    ci = gw_ld_relaxed_u32_gpu(&cq->ci);
    GW_NO_UNROLL_
    while (n > 0 && ready < (uint32_t)n && ready < cq->cqes && gw_cq_ready_(cq, ci + ready)) ready++;
    if (cq->flush) spoilt = gw_cq_settle_(cq, cq->flush, ci, ready);
    GW_NO_UNROLL_
    for (i = 0; i < ready; i++) {
        int is = gw_cq_take_(cq, gw_cq_entry_(cq, ci + i), wc ? wc + got : &untold, spoilt);

        got += is;
        drop += !is;
    }
    if (ready) gw_cq_taken_(cq, ci + ready, drop);
    gw_cq_leave_(cq);
    return got;
}

#ifdef __CUDACC__
/*
 * Takes one entry and wakes no thread. The last 8 bytes of an entry, owner byte and all, suffice to know a
 * good completion of a send. That is one load across the bus, instead of one for the owner and one for the
 * rest. A load takes a GPU a microsecond. (What wrote the entry wrote these before the owner, or with it.)
 */
GW_FN int gw_cq_retire_one_(struct gw_cq_handle *cq)
{
    /* Asked for before the load across the bus, and not after it, when the cache has been emptied. */
    const struct gw_qp_entry *table = cq->table;
    struct gw_flush_handle *flush = cq->flush;
    uint32_t mask = cq->table_mask, ci = gw_ld_relaxed_u32_gpu(&cq->ci);
    const struct gw_mlx5_cqe *cqe = gw_cq_entry_(cq, ci);
    uint64_t tail = gw_ld_acquire_u64(&cqe->wqe_opcode_qpn_be); /* acquire: as in gw_cq_ready_ */
    struct gw_qp_handle *qp;
    struct ibv_wc untold;
    int is, spoilt;

    if (!gw_mlx5_cqe_ready((uint8_t)(tail >> 56), ci, cq->cqes)) return 0;
    spoilt = flush ? gw_cq_settle_(cq, flush, ci, 1) : 0;
    if (tail >> 60 == GW_MLX5_CQE_REQ && !spoilt) {
        qp = gw_cq_find_(table, mask, gw_be32((uint32_t)tail) & 0xffffff);
        is = qp != NULL;
        if (is) gw_sq_retire_(qp, gw_be16((uint16_t)(tail >> 32)), GW_OK_);
    } else {
        is = gw_cq_take_(cq, cqe, &untold, spoilt);
    }
    gw_cq_taken_(cq, ci + 1, !is);
    return is;
}
#endif

/* For the fast calls, which look rarely and wake no thread. One entry at a time: to look whether there is a
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

#define GW_WAIT_SPIN_NS_ 20000 /* how long a CPU thread looks before it sleeps: what a wake-up costs */

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
        if (now >= deadline_ns) return gw_expired_(deadline_ns);
        if (round % 32 == 0 && gw_ld_relaxed_u32_gpu(&cq->dead)) return -EIO;
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
