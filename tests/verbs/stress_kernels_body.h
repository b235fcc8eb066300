/* SPDX-License-Identifier: Apache-2.0 */
/* Included by stress_kernels.c for the CPU and by stress_kernels.cu for the GPU. Block 0 takes in; of the
 * others every third posts by threads, by warps, and by all of its threads: all on one queue pair. */
#include "tests/verbs/stress_kernels.h"

struct stress_me {
    uint32_t form; /* 0: threads, 1: warps, 2: the block */
    uint32_t place, group;
};

GW_DEV struct stress_me stress_me(void)
{
    struct stress_me m;

    m.form = (gw_block_idx() - 1) % 3;
    m.group = m.form == 0 ? 1 : m.form == 1 ? gw_warp_size() : gw_block_dim();
    m.place = m.form == 0 ? 0 : m.form == 1 ? gw_lane() : gw_thread_idx();
    return m;
}

/* Of a group all but one take part, another one in each round of operations. */
GW_DEV int stress_on(const struct stress_me *m, uint32_t i)
{
    return m->group == 1 || m->place != i / ST_OPS % m->group;
}

GW_DEV uint32_t stress_token(const struct stress_args *a, uint32_t i)
{
    return ((gw_block_idx() - 1) * gw_block_dim() + gw_thread_idx()) * a->each + i;
}

GW_DEV struct gw_op stress_op(const struct stress_args *a, uint32_t i)
{
    uint64_t t = stress_token(a, i), from = a->here + 8 * t, to = a->there + 8 * t;
    uint64_t fetched = a->here + 8 * (a->tokens + t);

    switch (i % ST_OPS) {
    case ST_PUT: return gw_put_op(from, a->lkey, to, a->rkey, 8);
    case ST_ADD: return gw_fetch_add_op(fetched, a->lkey, to - 8, a->rkey, 1);
    case ST_PUT_IMM: return gw_put_imm_op(from, a->lkey, to, a->rkey, 8, (uint32_t)t);
    case ST_GET: return gw_get_op(fetched, a->lkey, to, a->rkey, 8);
    case ST_SWAP: return gw_cmp_swap_op(fetched, a->lkey, to, a->rkey, ST_WAS(t), ST_VALUE(t));
    case ST_COUNT: return gw_fetch_add_op(fetched, a->lkey, a->there + 16 * (uint64_t)a->tokens, a->rkey, 1);
    default:
        return gw_with_signal(gw_put_op(from, a->lkey, to, a->rkey, 8), a->there + 8 * (a->tokens + t),
                              a->rkey, ST_VALUE(t));
    }
}

/* Is it time to give up? The same answer for all that post together. */
GW_DEV int stress_late(const struct stress_me *m, uint64_t deadline)
{
    GW_SHARED(uint32_t, late);
    uint32_t over = gw_clock_ns() > deadline;

    if (m->form == 1) return gw_any(gw_warp_mask(), (int)over);
    if (m->form == 0) return (int)over;
    if (gw_thread_idx() == 0) *late = over;
    gw_syncthreads();
    over = *late;
    gw_syncthreads();
    return (int)over;
}

GW_DEV void stress_ended(const struct stress_args *a, int err)
{
    if (err == -ETIMEDOUT)
        gw_add_relaxed_u32_gpu(&a->result->late, 1);
    else if (err)
        gw_add_relaxed_u32_gpu(&a->result->errors, 1);
}

/* ---- tickets ------------------------------------------------------------------------------------------- */

GW_DEV void stress_tickets(const struct stress_args *a, uint64_t deadline)
{
    struct stress_me m = stress_me();
    uint64_t ticket = 0;
    uint32_t i = 0, round = 0;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);

    while (i < a->each && !err) {
        int on = stress_on(&m, i);
        struct gw_op op = stress_op(a, i);
        uint32_t defer = m.form == 0 && gw_thread_idx() & 1 && i % 5 != 4 && i + 1 != a->each ? GW_DEFER : 0;

        err = m.form == 0   ? gw_tx_post(&tx, op, defer, &ticket)
              : m.form == 1 ? gw_tx_post_warp(&tx, on, op, 0, &ticket)
                            : gw_tx_post_block(&tx, on, op, 0, &ticket);
        if (err == -EAGAIN) {
            gw_add_relaxed_u32_gpu(&a->result->full, 1);
            gw_tx_ring(&tx); /* room may be waiting for a ring that was deferred */
            err = stress_late(&m, deadline) ? -ETIMEDOUT : 0;
            gw_pause(round++);
            continue;
        }
        if (!err && on) gw_add_relaxed_u32_gpu(&a->result->posted, 1);
        i++;
    }
    /* A group that gave up gave up together. */
    if (!err)
        err = m.form == 0   ? gw_tx_flush(&tx, deadline)
              : m.form == 1 ? gw_tx_wait_warp(&tx, ticket, deadline)
                            : gw_tx_wait_block(&tx, ticket, deadline);
    stress_ended(a, err);
}

/* ---- typed calls and structs, whose completions everybody takes ---------------------------------------- */

GW_DEV void stress_poll(const struct stress_args *a)
{
    struct ibv_wc wc[4];
    int n = gw_poll_cq(a->cq, 4, wc), i;

    for (i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) gw_add_relaxed_u32_gpu(&a->result->errors, 1);
        if (wc[i].wr_id < a->tokens)
            gw_add_relaxed_u32_gpu(&a->seen[wc[i].wr_id], 1);
        else
            gw_add_relaxed_u32_gpu(&a->result->not_mine, 1);
    }
    /* Counted when they have been noted: who sees all counted may go. */
    if (n > 0) gw_add_release_u32(&a->result->completed, (uint32_t)n);
}

GW_DEV void stress_wr(const struct stress_args *a, uint32_t i, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct gw_op op = stress_op(a, i);
    uint32_t what = i % ST_OPS;

    memset(wr, 0, sizeof(*wr));
    wr->wr_id = stress_token(a, i);
    wr->sg_list = sge;
    wr->num_sge = 1;
    sge->addr = op.laddr;
    sge->length = 8;
    sge->lkey = a->lkey;
    wr->send_flags = IBV_SEND_SIGNALED;
    if (what == ST_ADD || what == ST_COUNT || what == ST_SWAP) {
        wr->opcode = what == ST_SWAP ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr->wr.atomic.remote_addr = op.raddr;
        wr->wr.atomic.rkey = a->rkey;
        wr->wr.atomic.compare_add = what == ST_SWAP ? ST_WAS(wr->wr_id) : 1;
        wr->wr.atomic.swap = ST_VALUE(wr->wr_id);
        return;
    }
    wr->opcode = what == ST_GET       ? IBV_WR_RDMA_READ
                 : what == ST_PUT_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM
                                      : IBV_WR_RDMA_WRITE;
    wr->imm_data = gw_be32((uint32_t)wr->wr_id);
    wr->wr.rdma.remote_addr = op.raddr;
    wr->wr.rdma.rkey = a->rkey;
}

/* Posts a thread's i-th request alone: as an operation, or every other round of atomics, and what is a put
 * with signal, as a list of one. */
GW_DEV int stress_single(const struct stress_args *a, uint32_t i)
{
    uint32_t flags = GW_SIGNALED | (gw_thread_idx() & 1 && i % 5 != 4 ? GW_DEFER : 0), what = i % ST_OPS;
    struct gw_op op = stress_op(a, i);
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;
    int err;

    if (what == ST_PUT || what == ST_GET || what == ST_PUT_IMM || (what != ST_SIGNAL && i / ST_OPS % 2))
        return gw_post_op(a->qp, op, flags, stress_token(a, i));
    stress_wr(a, i, &wr, &sge);
    err = gw_post_send(a->qp, &wr, &bad);
    return err == ENOMEM ? -EAGAIN : -err;
}

/* The rest of a round of operations, from i on, as one list; *posted: how many of it were. */
GW_DEV int stress_list(const struct stress_args *a, uint32_t i, uint32_t *posted)
{
    struct ibv_send_wr wr[ST_OPS], *bad = NULL;
    struct ibv_sge sge[ST_OPS];
    uint32_t n = 0;
    int err;

    do {
        stress_wr(a, i + n, &wr[n], &sge[n]);
        if (n) wr[n - 1].next = &wr[n];
        n++;
    } while ((i + n) % ST_OPS && i + n < a->each);
    err = gw_post_send(a->qp, wr, &bad);
    *posted = err ? (uint32_t)(bad - wr) : n;
    return err == ENOMEM ? -EAGAIN : -err;
}

/* One step of posting; *n: how many requests further. */
GW_DEV int stress_step(const struct stress_args *a, const struct stress_me *m, uint32_t i, uint32_t *n)
{
    struct gw_op op = stress_op(a, i);

    *n = 1;
    if (m->form == 2) return stress_list(a, i, n);
    if (m->form == 1 && (i % ST_OPS == ST_PUT || i % ST_OPS == ST_PUT_IMM))
        return gw_post_op_warp(a->qp, 1, op, GW_SIGNALED, stress_token(a, i));
    return stress_single(a, i);
}

GW_DEV void stress_structs(const struct stress_args *a, uint64_t deadline)
{
    struct stress_me m = stress_me();
    uint32_t i = 0, n, round = 0;
    int err = 0;

    /* The lanes of a warp post alone and together by turns: each is through with a request before its next
     * one. */
    while (i < a->each && !err) {
        err = stress_step(a, &m, i, &n);
        if (err && m.form != 2) n = 0;
        if (n) gw_add_relaxed_u32_gpu(&a->result->posted, n);
        i += n;
        if (err != -EAGAIN) continue;
        gw_add_relaxed_u32_gpu(&a->result->full, 1);
        gw_ring(a->qp);
        stress_poll(a);
        err = gw_clock_ns() > deadline ? -ETIMEDOUT : 0;
        gw_pause(round++);
    }
    gw_ring(a->qp);
    stress_ended(a, err);
    /* Requests that others could not post any more do not complete. */
    while (!err && gw_ld_acquire_u32(&a->result->completed) < a->tokens &&
           !gw_ld_relaxed_u32_gpu(&a->result->errors) && gw_clock_ns() < deadline) {
        stress_poll(a);
        gw_pause(round++);
    }
}

/* ---- the other side ------------------------------------------------------------------------------------ */

/* Keeps the receive queue full until everything has come, or the posters have failed. */
GW_DEV void stress_take(const struct stress_args *a, uint64_t deadline)
{
    uint32_t posted = 0, taken = 0, round = 0;
    struct ibv_wc wc[8];
    int n, i;

    while (taken < a->receives && gw_clock_ns() < deadline && !gw_ld_relaxed_u32_gpu(&a->result->errors)) {
        while (posted < a->receives && !gw_recv_empty(a->peer, 1, posted)) posted++;
        n = gw_poll_cq(a->peer_cq, 8, wc);
        for (i = 0; i < n; i++) {
            uint32_t token = gw_wc_imm(&wc[i]);

            if (wc[i].status != IBV_WC_SUCCESS || token >= a->tokens)
                gw_add_relaxed_u32_gpu(&a->result->errors, 1);
            else
                gw_add_relaxed_u32_gpu(&a->seen[token], 1u << 16);
        }
        taken += n > 0 ? (uint32_t)n : 0;
        gw_pause(n > 0 ? 0 : round++);
    }
    a->result->taken = taken;
}

GW_KERNEL(stress_kernel, struct stress_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;

    if (gw_block_idx() == 0) {
        if (gw_thread_idx() == 0) stress_take(a, deadline);
        return;
    }
    if (a->structs)
        stress_structs(a, deadline);
    else
        stress_tickets(a, deadline);
}
