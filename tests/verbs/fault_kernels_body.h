/* SPDX-License-Identifier: Apache-2.0 */
/* Included by fault_kernels.c for the CPU and by fault_kernels.cu for the GPU. */
#include "tests/verbs/fault_kernels.h"

GW_DEV uint32_t fault_group(const struct fault_args *a)
{
    return a->form == FORM_THREAD ? 1 : a->form == FORM_WARP ? gw_warp_size() : gw_block_dim();
}

/* Thread `place` of the group uses a stretch of its own, or the wrong one. */
GW_DEV struct fault_place fault_place(const struct fault_args *a, uint32_t place)
{
    struct fault_place p = a->good;

    if (place == a->bad) return a->wrong;
    p.local += FAULT_BYTES * place;
    p.remote += FAULT_BYTES * place;
    p.signal += 8 * place;
    return p;
}

/* As many receives at the peer as messages are going to come, and its completions out of the way. */
GW_DEV void fault_receives(const struct fault_args *a, uint32_t n, uint64_t deadline)
{
    const int takes = a->op == OP_PUT_IMM || a->op == OP_SEND || a->op == OP_SEND_IMM;
    struct ibv_wc wc[4];
    uint32_t i = 0;

    if (!a->peer || !takes || gw_thread_idx()) return;
    while (i < n && gw_clock_ns() < deadline) {
        if (gw_recv(a->peer, a->inbox, a->good.lkey, FAULT_BYTES, i))
            (void)gw_poll_cq(a->peer_cq, 4, wc);
        else
            i++;
    }
}

/* ---- tickets ------------------------------------------------------------------------------------------- */

GW_DEV struct gw_op fault_op(const struct fault_args *a, struct fault_place p)
{
    switch (a->op) {
    case OP_PUT_IMM: return gw_put_imm_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES, 1);
    case OP_SIGNAL:
        return gw_with_signal(gw_put_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES), p.signal,
                              p.signal_rkey, 1);
    case OP_GET: return gw_get_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES);
    case OP_ADD: return gw_fetch_add_op(p.local, p.lkey, p.remote, p.rkey, 1);
    case OP_SWAP: return gw_cmp_swap_op(p.local, p.lkey, p.remote, p.rkey, 0, 1);
    case OP_MASKED_ADD: return gw_masked_fetch_add_op(p.local, p.lkey, p.remote, p.rkey, 1, 1);
    case OP_MASKED_SWAP: return gw_with_masks(gw_cmp_swap_op(p.local, p.lkey, p.remote, p.rkey, 0, 1), 1, 1);
    default: return gw_put_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES);
    }
}

GW_DEV int fault_post(const struct fault_args *a, struct gw_tx *tx, struct gw_op op, uint64_t *ticket)
{
    switch (a->form) {
    case FORM_WARP: return gw_tx_post_warp(tx, 1, op, 0, ticket);
    case FORM_BLOCK: return gw_tx_post_block(tx, 1, op, 0, ticket);
    default: return gw_tx_post(tx, op, 0, ticket);
    }
}

GW_DEV int fault_wait(const struct fault_args *a, struct gw_tx *tx, uint64_t ticket, uint64_t deadline)
{
    uint64_t start = gw_clock_ns(), took;
    int err;

    switch (a->form) {
    case FORM_WARP: err = gw_tx_wait_warp(tx, ticket, deadline); break;
    case FORM_BLOCK: err = gw_tx_wait_block(tx, ticket, deadline); break;
    default: err = gw_tx_wait(tx, ticket, deadline);
    }
    took = gw_clock_ns() - start;
    if (gw_thread_idx() == 0 && took > a->out->took_ns) a->out->took_ns = took;
    return err;
}

GW_DEV void fault_tickets(const struct fault_args *a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns, ticket = 0;
    uint32_t me = gw_thread_idx(), n = fault_group(a);
    struct fault_place mine = fault_place(a, me), good = fault_place(a, me == a->bad ? FAULT_THREADS : me);
    struct fault_out *out = a->out;
    struct gw_tx tx;
    int err, opened = gw_tx_open(&tx, a->qp);

    do {
        fault_receives(a, n, deadline);
        err = fault_post(a, &tx, fault_op(a, mine), &ticket);
        if (me == 0) out->opened = opened, out->posted = err;
        if (err) return;
        err = fault_wait(a, &tx, ticket, deadline);
        if (me == 0 && !err) gw_st_relaxed_u64(&out->rounds, out->rounds + 1);
    } while (a->loop && !err);
    if (me == 0) out->all = err;
    if (me < FAULT_THREADS) {
        out->ticket[me] = ticket;
        /* With one owner all is in the first thread's view. */
        out->each[me] = a->one_owner && me ? err : gw_tx_wait(&tx, ticket, deadline);
    }
    if (me == 0) out->flushed = gw_tx_flush(&tx, deadline);
    fault_receives(a, n, deadline);
    err = fault_post(a, &tx, fault_op(a, good), &ticket);
    if (me == 0) out->later = err;
    if (err) return;
    err = fault_wait(a, &tx, ticket, deadline);
    if (me == 0) out->later_all = err;
}

/* ---- calls whose completions are polled for ------------------------------------------------------------ */

GW_DEV int fault_struct(const struct fault_args *a, struct fault_place p, uint64_t wr_id)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr, *bad;

    memset(&wr, 0, sizeof(wr));
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    sge.addr = p.local;
    sge.length = FAULT_BYTES;
    sge.lkey = p.lkey;
    wr.wr.rdma.remote_addr = p.remote;
    wr.wr.rdma.rkey = p.rkey;
    switch (a->op) {
    case OP_PUT: wr.opcode = IBV_WR_RDMA_WRITE; break;
    case OP_PUT_IMM: wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM; break;
    case OP_GET: wr.opcode = IBV_WR_RDMA_READ; break;
    case OP_SEND: wr.opcode = IBV_WR_SEND; break;
    case OP_SEND_IMM: wr.opcode = IBV_WR_SEND_WITH_IMM; break;
    default:
        wr.opcode = a->op == OP_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
        sge.length = 8;
        wr.wr.atomic.remote_addr = p.remote;
        wr.wr.atomic.rkey = p.rkey;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.swap = 2;
    }
    return -gw_post_send(a->qp, &wr, &bad);
}

GW_DEV int fault_single(const struct fault_args *a, struct fault_place p, uint64_t wr_id)
{
    if (a->call == CALL_STRUCT) return fault_struct(a, p, wr_id);
    switch (a->op) {
    case OP_PUT:
        return gw_post_op(a->qp, gw_put_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES), GW_SIGNALED,
                          wr_id);
    case OP_PUT_IMM:
        return gw_post_op(a->qp, gw_put_imm_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES, 1),
                          GW_SIGNALED, wr_id);
    case OP_GET:
        return gw_post_op(a->qp, gw_get_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES), GW_SIGNALED,
                          wr_id);
    default: return gw_send(a->qp, p.local, p.lkey, FAULT_BYTES, GW_SIGNALED, wr_id);
    }
}

/* Takes completions until there are n; whether one was bad, or did not come. */
GW_DEV int fault_collect(const struct fault_args *a, uint32_t n, uint64_t deadline)
{
    struct fault_out *out = a->out;
    uint64_t start = gw_clock_ns();
    int bad = 0;

    for (out->wcs = 0; out->wcs < n; out->wcs++) {
        struct ibv_wc *wc = &out->wc[out->wcs];

        if (gw_wait_cq(a->cq, 1, wc, deadline, NULL, -1) != 1) {
            bad = 1;
            break;
        }
        bad |= wc->status != IBV_WC_SUCCESS;
    }
    if (gw_clock_ns() - start > out->took_ns) out->took_ns = gw_clock_ns() - start;
    return bad;
}

/* One round by the whole group; whether it is the last one. */
GW_DEV int fault_round(const struct fault_args *a, uint32_t n, uint64_t deadline)
{
    uint32_t me = gw_thread_idx(), mask = gw_warp_mask();
    struct fault_place p = fault_place(a, me), good = fault_place(a, me == a->bad ? FAULT_THREADS : me);
    struct fault_out *out = a->out;
    int err, failed = 0;

    fault_receives(a, n + 1, deadline);
    if (a->form == FORM_THREAD)
        err = fault_single(a, p, me);
    else
        err = gw_post_op_warp(a->qp, 1,
                              a->op == OP_PUT_IMM
                                  ? gw_put_imm_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES, 1)
                                  : gw_put_op(p.local, p.lkey, p.remote, p.rkey, FAULT_BYTES),
                              GW_SIGNALED, me);
    if (me == 0) {
        out->posted = err;
        /* After them another one, which may already be refused. */
        if (!err) failed = fault_collect(a, n + !fault_single(a, good, n), deadline);
    }
    if (a->form == FORM_THREAD) return err || failed;
    return err || gw_shfl_u32(mask, (uint32_t)failed, 0);
}

GW_DEV void fault_polled(const struct fault_args *a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    uint32_t n = fault_group(a);
    struct fault_out *out = a->out;

    while (!fault_round(a, n, deadline) && a->loop)
        if (gw_thread_idx() == 0) gw_st_relaxed_u64(&out->rounds, out->rounds + 1);
    if (gw_thread_idx() || out->posted) return;
    fault_receives(a, 1, deadline);
    out->later = fault_single(a, fault_place(a, FAULT_THREADS), n + 1);
    if (!out->later && out->wcs < FAULT_THREADS + 2 &&
        gw_wait_cq(a->cq, 1, &out->wc[out->wcs], deadline, NULL, -1) == 1)
        out->wcs++;
}

GW_KERNEL(fault_kernel, struct fault_args, a)
{
    if (gw_thread_idx() == 0) a->out->group = fault_group(a);
    if (a->form == FORM_THREAD && gw_thread_idx()) return;
    if (a->form == FORM_WARP && gw_warp_idx()) return;
    if (a->call == CALL_TICKET)
        fault_tickets(a);
    else
        fault_polled(a);
    if (gw_thread_idx() == 0) a->out->faulted = gw_fault_of(a->qp, &a->out->fault);
}
