/* SPDX-License-Identifier: Apache-2.0 */
/* Included by script_kernels.c for the CPU and by script_kernels.cu for the GPU. */
#include "tests/verbs/script_kernels.h"

GW_DEV void wr_of(const struct step *s, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    uint32_t i;

    for (i = 0; i < s->num_sge && i < STEP_SGE; i++) sge[i] = s->sge[i];
    wr->wr_id = s->wr_id;
    wr->next = NULL;
    wr->sg_list = sge;
    wr->num_sge = (int)s->num_sge;
    wr->opcode = (enum ibv_wr_opcode)s->opcode;
    wr->send_flags = s->flags;
    wr->imm_data = gw_be32(s->imm);
    if (s->opcode == IBV_WR_SEND_WITH_INV) wr->invalidate_rkey = s->imm;
    if (s->ud) {
        wr->wr.ud.ah = s->ud > 1 ? NULL : gw_ibv_ah(&s->ah);
        wr->wr.ud.remote_qpn = s->dqpn;
        wr->wr.ud.remote_qkey = s->qkey;
    } else if (s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = s->raddr;
        wr->wr.atomic.rkey = s->rkey;
        wr->wr.atomic.compare_add = s->compare_add;
        wr->wr.atomic.swap = s->swap;
    } else {
        wr->wr.rdma.remote_addr = s->raddr;
        wr->wr.rdma.rkey = s->rkey;
    }
}

/* Posts the chain that begins at step i; returns its last step. */
GW_DEV uint32_t post_chain(const struct script_args *a, uint32_t i)
{
    struct ibv_send_wr wr[8], *bad = NULL;
    struct ibv_sge sge[8][STEP_SGE];
    uint32_t n = 0, k;
    int err;

    do {
        wr_of(&a->step[i + n], &wr[n], sge[n]);
        if (n) wr[n - 1].next = &wr[n];
        n++;
    } while (n < 8 && a->step[i + n - 1].more && i + n < a->steps);
    err = gw_post_send(a->qp[a->step[i].qp], wr, &bad);
    for (k = 0; k < n; k++) a->out->ret[i + k] = err ? 1000 * (int)(bad - wr) + err : 0;
    return i + n - 1;
}

GW_DEV int post_recv(const struct script_args *a, const struct step *s)
{
    struct ibv_recv_wr wr, *bad;
    struct ibv_sge sge[STEP_SGE];
    uint32_t i;

    for (i = 0; i < s->num_sge && i < STEP_SGE; i++) sge[i] = s->sge[i];
    wr.wr_id = s->wr_id;
    wr.next = NULL;
    wr.sg_list = sge;
    wr.num_sge = (int)s->num_sge;
    return gw_post_recv(a->qp[s->qp], &wr, &bad);
}

GW_DEV int wait_for(const struct script_args *a, const struct step *s)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    uint32_t want = (uint32_t)s->wr_id, got = 0;

    while (got < want && a->out->wcs < SCRIPT_WCS) {
        int n = gw_wait_cq(a->cq[s->qp], 1, &a->out->wc[a->out->wcs], deadline, NULL, -1);

        if (n <= 0) return n < 0 ? n : -ETIMEDOUT;
        got++;
        a->out->wcs++;
    }
    return 0;
}

GW_DEV int take_step(const struct script_args *a, const struct step *s)
{
    uint64_t addr = s->sge[0].addr;
    uint32_t lkey = s->sge[0].lkey, len = s->sge[0].length;
    struct gw_qp_handle *qp = a->qp[s->qp];
    struct gw_op put = gw_put_op(addr, lkey, s->raddr, s->rkey, len);
    struct gw_op to = gw_send_to_op(&s->ah, s->dqpn, s->qkey, addr, lkey, len);
    struct ibv_wc wc;

    switch (s->call) {
    case STEP_PUT: return gw_post_op(qp, put, s->flags, s->wr_id);
    case STEP_PUT_IMM: return gw_post_op(qp, gw_with_imm(put, s->imm), s->flags, s->wr_id);
    case STEP_GET: return gw_post_op(qp, gw_get_op(addr, lkey, s->raddr, s->rkey, len), s->flags, s->wr_id);
    case STEP_SEND: return gw_send(qp, addr, lkey, len, s->flags, s->wr_id);
    case STEP_SEND_TO: return gw_post_op(qp, to, s->flags, s->wr_id);
    case STEP_SEND_TO_IMM: return gw_post_op(qp, gw_with_imm(to, s->imm), s->flags, s->wr_id);
    case STEP_RECV: return gw_recv(qp, addr, lkey, len, s->wr_id);
    case STEP_IBV_RECV: return post_recv(a, s);
    case STEP_RING: gw_ring(qp); return 0;
    case STEP_WAIT: return wait_for(a, s);
    case STEP_EXPECT_EMPTY: return gw_poll_cq(a->cq[s->qp], 1, &wc) ? -EEXIST : 0;
    default: return -ENOSYS;
    }
}

GW_KERNEL(script_kernel, struct script_args, a)
{
    uint32_t i;

    if (gw_global_idx()) return;
    for (i = 0; i < a->steps; i++) {
        uint64_t before = gw_clock_ns();

        if (a->step[i].call == STEP_IBV_SEND)
            i = post_chain(a, i);
        else
            a->out->ret[i] = take_step(a, &a->step[i]);
        a->out->wait_ns[i] = (uint32_t)(gw_clock_ns() - before);
    }
    for (i = 0; i < 2; i++) a->out->faulted[i] = gw_fault_of(a->qp[i], &a->out->fault[i]);
}

GW_DEV void share_poll(const struct share_args *a)
{
    struct ibv_wc wc[8];
    int n = gw_poll_cq(a->cq, 8, wc), i;

    for (i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS) gw_add_relaxed_u32_gpu(&a->done[1], 1);
    if (n > 0) gw_add_relaxed_u32_gpu(&a->done[0], (uint32_t)n);
}

GW_KERNEL(share_kernel, struct share_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns, off;
    uint32_t i, round = 0, want = gw_global_dim() * a->each;
    struct gw_op put;
    int err;

    for (i = 0; i < a->each;) {
        off = ((uint64_t)gw_global_idx() * a->each + i) * a->len;
        put = gw_put_op(a->src + off, a->lkey, a->dst + off, a->rkey, a->len);
        err =
            a->warp ? gw_post_op_warp(a->qp, 1, put, GW_SIGNALED, i) : gw_post_op(a->qp, put, GW_SIGNALED, i);
        if (!err) {
            i++;
            continue;
        }
        share_poll(a);
        gw_pause(round++);
        err = err != -EAGAIN || gw_clock_ns() > deadline;
        if (a->warp) err = gw_any(gw_warp_mask(), err);
        if (err) {
            gw_add_relaxed_u32_gpu(&a->done[2], 1);
            return;
        }
    }
    while (gw_ld_relaxed_u32_gpu(&a->done[0]) < want && gw_clock_ns() < deadline) {
        share_poll(a);
        gw_pause(round++);
    }
}

GW_KERNEL(ticket_kernel, struct ticket_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns, t[8];
    uint32_t i, rkey = a->rkey ^ (a->fail ? 0x5500u : 0);
    struct gw_tx tx;

    if (gw_global_idx()) return;
    for (i = 0; i < TICKET_STEPS; i++) a->ret[i] = gw_tx_open(&tx, a->qp);
    for (i = 0; i < 8; i++) t[i] = 0;
    a->ret[0] = gw_tx_post(&tx, gw_put_op(a->src, a->lkey, a->dst, a->rkey, 200), GW_DEFER, &t[0]);
    a->ret[1] = gw_tx_wait(&tx, t[0], deadline); /* rings for what was deferred */
    a->ret[2] = gw_tx_post(&tx,
                           gw_with_signal(gw_put_op(a->src + 200, a->lkey, a->dst + 200, rkey, 300),
                                          a->dst + 504, a->rkey, 0x1122334455667788u),
                           0, &t[1]);
    a->ret[3] = gw_tx_post(&tx, gw_fetch_add_op(a->src + 1000, a->lkey, a->dst + 1000, a->rkey, 5), 0, &t[2]);
    a->ret[4] = gw_tx_post(&tx, gw_cmp_swap_op(a->src + 1008, a->lkey, a->dst + 1000, a->rkey, 1005, 9),
                           GW_DEFER, &t[3]);
    a->ret[5] =
        gw_tx_post(&tx, gw_get_op(a->src + 2000, a->lkey, a->dst + 2000, a->rkey, 700), GW_SIGNALED, &t[4]);
    a->ret[6] = gw_tx_wait(&tx, t[4], deadline);
    a->ret[7] = gw_tx_wait(&tx, t[0], 0); /* long since */
    a->ret[8] = gw_tx_wait(&tx, t[4] + 1000, deadline);
    a->ret[9] = gw_tx_flush(&tx, deadline);
    a->ret[10] = gw_tx_post(&tx,
                            gw_masked_fetch_add_op(a->src + 1016, a->lkey, a->dst + 1000, a->rkey, 0x1f8,
                                                   0x80), /* two fields: 9 + 0xf8, and 1 */
                            0, &t[5]);
    a->ret[11] = gw_tx_post(
        &tx,
        gw_with_masks(gw_cmp_swap_op(a->src + 1024, a->lkey, a->dst + 1000, a->rkey, 0x5501, 0xabcd), 0xff,
                      0xf0f0),
        0, &t[6]);
    a->ret[12] = gw_tx_wait(&tx, t[6], deadline);
}

/* One round: queue pair `from` writes, the other's receive completes. Both completions are taken. */
GW_DEV int ping(const struct ping_args *a, uint32_t from, uint32_t i, uint64_t deadline)
{
    struct ibv_wc wc;
    int err = gw_recv_empty(a->qp[!from], 1, i);

    if (!err)
        err = gw_post_op(a->qp[from], gw_put_imm_op(a->src, a->lkey, a->dst, a->rkey, a->len, i), GW_SIGNALED,
                         i);
    if (err) return err;
    if (gw_wait_cq(a->cq[!from], 1, &wc, deadline, NULL, -1) != 1 || wc.status != IBV_WC_SUCCESS) return -EIO;
    if (gw_wc_imm(&wc) != i) return -EPROTO;
    return gw_wait_cq(a->cq[from], 1, &wc, deadline, NULL, -1) == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

GW_KERNEL(ping_kernel, struct ping_args, a)
{
    uint64_t start = gw_clock_ns(), deadline = start + a->limit_ns;
    uint32_t i;

    if (gw_global_idx()) return;
    for (i = 0; i < a->rounds; i++)
        if (ping(a, 0, i, deadline) || ping(a, 1, i, deadline)) break;
    a->ns[0] = gw_clock_ns() - start;
    a->ns[1] = i;
}
