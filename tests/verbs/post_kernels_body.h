/* SPDX-License-Identifier: Apache-2.0 */
/* Included by post_kernels.c for the CPU and by post_kernels.cu for the GPU. */
#include "tests/verbs/post_kernels.h"

GW_DEV void poll_some(const struct post_args *a)
{
    struct ibv_wc wc[4];
    int n = gw_poll_cq(a->cq, 4, wc), i;

    for (i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) gw_add_relaxed_u32_gpu(&a->result->errors, 1);
        gw_add_relaxed_u32_gpu(&a->result->wr_id_sum, (uint32_t)wc[i].wr_id);
    }
    if (n > 0) gw_add_relaxed_u32_gpu(&a->result->completed, (uint32_t)n);
}

/* Deals with what a post returned: true when it is to be tried again. */
GW_DEV int again(const struct post_args *a, int err, uint32_t n, uint64_t deadline)
{
    if (!err) {
        gw_add_relaxed_u32_gpu(&a->result->posted, n);
        return 0;
    }
    if (err != -EAGAIN) {
        gw_add_relaxed_u32_gpu(&a->result->errors, 1);
        return 0;
    }
    gw_add_relaxed_u32_gpu(&a->result->full, 1);
    poll_some(a);
    if (gw_clock_ns() < deadline) return 1;
    gw_add_relaxed_u32_gpu(&a->result->timeouts, 1);
    return 0;
}

/*
 * Before the next try, after `round` failed ones: longer and longer. Lanes of a warp that have parted take
 * turns, and each that only looks whether there is room takes time from the one that polls, and makes some.
 * Where a look takes a hundred microseconds, as under compute-sanitizer, that one would hardly ever have its
 * turn.
 */
GW_DEV void retreat(uint32_t round)
{
    uint64_t ns = round < 32 ? 0 : (round - 32) * (uint64_t)2000,
             until = gw_clock_ns() + (ns < 200000 ? ns : 200000);

    do {
        gw_pause(round);
    } while (gw_clock_ns() < until);
}

GW_DEV uint32_t flags_of(const struct post_args *a, uint32_t i)
{
    uint32_t signaled = a->signal_all || i % 4 == 3 || i + 1 == a->each ? GW_SIGNALED : 0;

    return signaled | (a->how == POST_DEFER && i % 3 != 2 && i + 1 != a->each ? GW_DEFER : 0);
}

GW_DEV void post_singly(const struct post_args *a, uint64_t deadline)
{
    uint32_t i, token, round;
    int err;

    for (i = 0; i < a->each; i++) {
        token = gw_global_idx() * a->each + i;
        round = 0;
        do {
            err = gw_post_op(a->qp, gw_put_op(0x1000, 1, token, 2, 64), flags_of(a, i), token);
            /* A full queue may wait for the ring that this or another thread has deferred. */
            if (err == -EAGAIN && a->how == POST_DEFER) gw_ring(a->qp);
            if (err == -EAGAIN) retreat(round++);
        } while (again(a, err, 1, deadline));
    }
}

/* Every lane but one in turn takes part. */
GW_DEV void post_by_warp(const struct post_args *a, uint64_t deadline)
{
    uint32_t i, token, on, n, round;
    int err;

    for (i = 0; i < a->each; i++) {
        token = gw_global_idx() * a->each + i;
        on = gw_warp_size() == 1 || gw_lane() != i % gw_warp_size();
        n = gw_warp_size() == 1 ? 1 : gw_warp_size() - 1;
        round = 0;
        do {
            int more;

            err = gw_post_op_warp(a->qp, (int)on,
                                  i & 1 ? gw_put_imm_op(0x1000, 1, token, 2, 64, i)
                                        : gw_put_op(0x1000, 1, token, 2, 64),
                                  GW_SIGNALED, token);
            more = gw_lane() == 0 && again(a, err, n, deadline);
            if (err == -EAGAIN) retreat(round++);
            err = gw_any(gw_warp_mask(), more);
        } while (err);
    }
}

/* Lists of three: one, two and four WQEBBs. */
GW_DEV void post_lists(const struct post_args *a, uint64_t deadline)
{
    struct ibv_sge sge[12];
    struct ibv_send_wr wr[3], *bad, *next;
    uint32_t i, k, token, round;

    for (i = 0; i < 12; i++) {
        sge[i].addr = 0x1000 + i;
        sge[i].length = 8;
        sge[i].lkey = 1;
    }
    for (i = 0; i < a->each; i += 3) {
        for (k = 0; k < 3 && i + k < a->each; k++) {
            token = gw_global_idx() * a->each + i + k;
            wr[k].wr_id = token;
            wr[k].next = k < 2 && i + k + 1 < a->each ? &wr[k + 1] : NULL;
            wr[k].sg_list = sge;
            wr[k].num_sge = k == 0 ? 1 : k == 1 ? 5 : 12;
            wr[k].opcode = IBV_WR_RDMA_WRITE;
            wr[k].send_flags = IBV_SEND_SIGNALED;
            wr[k].wr.rdma.remote_addr = token;
            wr[k].wr.rdma.rkey = 2;
        }
        next = &wr[0];
        round = 0;
        while (next) {
            struct ibv_send_wr *from = next;
            int err = gw_post_send(a->qp, from, &bad);
            uint32_t n = 0;

            next = err ? bad : NULL;
            for (; from != next; from = from->next) n++;
            if (n) gw_add_relaxed_u32_gpu(&a->result->posted, n);
            if (!err) break;
            if (!again(a, err == ENOMEM ? -EAGAIN : -err, 0, deadline)) return;
            retreat(round++);
        }
    }
}

/* Keeps the largest. */
GW_DEV void longest(uint32_t *at, uint32_t v)
{
    uint32_t was = gw_ld_relaxed_u32_gpu(at), seen;

    for (; was < v; was = seen) {
        seen = gw_cas_relaxed_u32_gpu(at, was, v);
        if (seen == was) return;
    }
}

GW_KERNEL(post_kernel, struct post_args, a)
{
    uint64_t start = gw_clock_ns(), deadline = start + a->limit_ns;
    uint32_t round = 0, want;

    if (a->how == POST_WARP)
        post_by_warp(a, deadline);
    else if (a->how == POST_LIST)
        post_lists(a, deadline);
    else
        post_singly(a, deadline);
    if (a->how == POST_DEFER) gw_ring(a->qp);
    longest(&a->result->ns, (uint32_t)(gw_clock_ns() - start));
    /* With every request signalled, every completion is waited for: by everybody. */
    if (!a->signal_all) return;
    do {
        poll_some(a);
        want = gw_ld_relaxed_u32_gpu(&a->result->posted);
        gw_pause(round++);
    } while (gw_ld_relaxed_u32_gpu(&a->result->completed) < want && gw_clock_ns() < deadline);
}

/* ---- the fast calls ------------------------------------------------------------------------------------ */

/* One of each kind in turn; the token is the remote address, in words of 8 bytes. */
GW_DEV struct gw_op tx_op(uint32_t i, uint64_t token)
{
    token *= 8;
    switch (i % 7) {
    case 0: return gw_put_op(0x1000, 1, token, 2, 64);
    case 1: return gw_put_imm_op(0x1000, 1, token, 2, 0, i);
    case 2: return gw_get_op(0x1000, 1, token, 2, 64);
    case 3: return gw_fetch_add_op(0x1000, 1, token, 2, i);
    case 4: return gw_cmp_swap_op(0x1000, 1, token, 2, i, i + 1);
    case 5: return gw_masked_fetch_add_op(0x1000, 1, token, 2, i, 1u << 31);
    default: return gw_with_masks(gw_cmp_swap_op(0x1000, 1, token, 2, i, i + 1), 0xff, 0xff00);
    }
}

GW_DEV int tx_one(const struct post_args *a, struct gw_tx *tx, int on, uint32_t i, uint32_t token,
                  uint64_t *ticket)
{
    uint32_t defer = a->how == TX_DEFER && i % 3 != 2 && i + 1 != a->each ? GW_DEFER : 0;

    if (a->how == TX_WARP) return gw_tx_post_warp(tx, on, tx_op(i, token), 0, ticket);
    if (a->how == TX_BLOCK) return gw_tx_post_block(tx, on, tx_op(i, token), 0, ticket);
    return gw_tx_post(tx, tx_op(i, token), defer, ticket);
}

/* Is it time to give up? The same answer for all that post together. */
GW_DEV int tx_late(const struct post_args *a, uint64_t deadline)
{
    GW_SHARED(uint32_t, late);
    uint32_t over;

    if (a->how != TX_BLOCK) {
        over = gw_clock_ns() > deadline;
        return a->how == TX_WARP ? gw_any(gw_warp_mask(), (int)over) : (int)over;
    }
    if (gw_thread_idx() == 0) *late = gw_clock_ns() > deadline;
    gw_syncthreads();
    over = *late;
    gw_syncthreads();
    return (int)over;
}

GW_KERNEL(tx_kernel, struct post_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns, ticket = 0, last = 0;
    uint32_t i, on, round = 0, group = a->how == TX_WARP ? gw_warp_size() : gw_block_dim();
    uint32_t place = a->how == TX_WARP ? gw_lane() : gw_thread_idx();
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);

    for (i = 0; i < a->each && !err;) {
        on = a->how < TX_WARP || group == 1 || i % 4 == 3 || place != i % group;
        err = tx_one(a, &tx, (int)on, i, gw_global_idx() * a->each + i, &ticket);
        if (err == -EAGAIN) {
            gw_add_relaxed_u32_gpu(&a->result->full, 1);
            if (a->how == TX_DEFER) gw_tx_ring(&tx); /* room may be waiting for the ring */
            err = tx_late(a, deadline) ? -ETIMEDOUT : 0;
            gw_pause(round++);
            continue;
        }
        if (err) break;
        if (on && ticket <= last) gw_add_relaxed_u32_gpu(&a->result->out_of_order, 1);
        if (on) {
            last = ticket;
            gw_add_relaxed_u32_gpu(&a->result->posted, 1);
        }
        i++;
    }
    if (!err && a->how == TX_BLOCK)
        err = gw_tx_wait_block(&tx, last, deadline);
    else if (!err && a->how == TX_WARP)
        err = gw_tx_wait_warp(&tx, last, deadline);
    else if (!err)
        err = gw_tx_flush(&tx, deadline);
    /* A thread whose wait succeeded has waited for all. */
    if (!err && gw_ld_relaxed_u64_gpu(&a->qp->sq_ok) < last)
        gw_add_relaxed_u32_gpu(&a->result->out_of_order, 1);
    if (err == -ETIMEDOUT)
        gw_add_relaxed_u32_gpu(&a->result->timeouts, 1);
    else if (err)
        gw_add_relaxed_u32_gpu(&a->result->errors, 1);
}

/* Each thread posts receives and takes completions until all are there. */
GW_KERNEL(recv_kernel, struct recv_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    uint32_t i, all = a->each * gw_global_dim(), round = 0;
    struct ibv_wc wc;

    for (i = 0; i < a->each;) {
        uint32_t token = gw_global_idx() * a->each + i;
        int err = i & 1 ? gw_recv_empty(a->qp, 1, token) : gw_recv(a->qp, 0x2000, 1, 128, token);

        if (!err) {
            i++;
            gw_add_relaxed_u32_gpu(&a->result->posted, 1);
        } else if (gw_clock_ns() > deadline) {
            gw_add_relaxed_u32_gpu(&a->result->timeouts, 1);
            return;
        }
        if (gw_poll_cq(a->cq, 1, &wc) == 1)
            a->imm[gw_add_relaxed_u32_gpu(&a->result->completed, 1)] = (uint32_t)wc.wr_id;
        if (err) gw_pause(round++);
    }
    while (gw_ld_relaxed_u32_gpu(&a->result->completed) < all && gw_clock_ns() < deadline) {
        if (gw_poll_cq(a->cq, 1, &wc) == 1)
            a->imm[gw_add_relaxed_u32_gpu(&a->result->completed, 1)] = (uint32_t)wc.wr_id;
        gw_pause(round++);
    }
}
