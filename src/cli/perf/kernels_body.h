/* SPDX-License-Identifier: Apache-2.0 */
/* Included by kernels.c for the CPU and by kernels.cu for the GPU. */
#include "src/cli/perf/kernels.h"

/* ---- who posts ----------------------------------------------------------------------------------------- */

struct perf_poster {
    uint32_t idx;         /* of all posters */
    uint32_t qp, rank;    /* its queue pair, and its place among that one's posters */
    uint32_t width, lane; /* threads that post together, and which this one is */
};

GW_DEV struct perf_poster perf_me(uint32_t by, uint32_t qps)
{
    uint32_t warps = (gw_block_dim() + 31) / 32;
    struct perf_poster p;

    p.idx = by == PERF_BY_THREAD ? gw_global_idx()
            : by == PERF_BY_WARP ? gw_block_idx() * warps + gw_warp_idx()
                                 : gw_block_idx();
    p.width = by == PERF_BY_THREAD ? 1 : by == PERF_BY_WARP ? gw_warp_size() : gw_block_dim();
    p.lane = by == PERF_BY_THREAD ? 0 : by == PERF_BY_WARP ? gw_lane() : gw_thread_idx();
    p.qp = p.idx % qps;
    p.rank = p.idx / qps;
    return p;
}

/* The first thread's value, for all of the poster. */
GW_DEV uint32_t perf_share(uint32_t by, uint32_t v)
{
    GW_SHARED(uint32_t, shared);

    if (by == PERF_BY_THREAD) return v;
    if (by == PERF_BY_WARP) return gw_shfl_u32(gw_warp_mask(), v, 0);
    if (gw_thread_idx() == 0) *shared = v;
    gw_syncthreads();
    v = *shared;
    gw_syncthreads();
    return v;
}

enum { PERF_GO_ON, PERF_END, PERF_STUCK };

/* Is it time to end? since: when the poster last got on. The clock is read by the first thread alone. */
GW_DEV uint32_t perf_over(const struct perf_post_args *a, const struct perf_poster *p, uint64_t start,
                          uint64_t since)
{
    uint32_t what = PERF_GO_ON;

    if (p->lane == 0) {
        uint64_t now = gw_clock_ns();

        if (gw_ld_relaxed_u32(a->stop) || (!a->count && now - start >= a->limit_ns))
            what = PERF_END;
        else if (since && now - since >= a->patience_ns)
            what = PERF_STUCK;
    }
    return perf_share(a->by, what);
}

GW_DEV void perf_wait_turn(const struct perf_post_args *a, uint64_t start, uint64_t ops)
{
    uint32_t round = 0;

    while (a->pace && gw_clock_ns() - start < ops * a->pace >> 10 && !gw_ld_relaxed_u32(a->stop))
        gw_pause(round++);
}

/* ---- what is posted ------------------------------------------------------------------------------------ */

/* Where the poster's n-th operation reads or writes. With a count each operation has a slot of its own, as
 * long as there are enough. */
GW_DEV uint64_t perf_at(const struct perf_post_args *a, const struct perf_place *at,
                        const struct perf_poster *p, uint64_t n)
{
    return at->base + p->qp * at->span + (p->rank * a->count + n) % at->slots * at->stride;
}

GW_DEV struct gw_op perf_nth(const struct perf_post_args *a, uint32_t op, const struct perf_poster *p,
                             uint64_t n)
{
    uint64_t here = perf_at(a, &a->here, p, n), there = perf_at(a, &a->there, p, n);
    uint64_t counter = a->there.base + p->qp * a->there.span;

    switch (op) {
    case PERF_PUT: return gw_put_op(here, a->here.key, there, a->there.key, a->size);
    case PERF_PUT_IMM: return gw_put_imm_op(here, a->here.key, there, a->there.key, a->size, (uint32_t)n);
    case PERF_GET: return gw_get_op(here, a->here.key, there, a->there.key, a->size);
    case PERF_FETCH_ADD: return gw_fetch_add_op(here, a->here.key, counter, a->there.key, 1);
    case PERF_MASKED_ADD:
        return gw_masked_fetch_add_op(here, a->here.key, counter, a->there.key, PERF_FIELDS_ADD,
                                      PERF_FIELDS_BOUNDARY);
    case PERF_MASKED_SWAP:
        return gw_with_masks(gw_cmp_swap_op(here, a->here.key, there, a->there.key, PERF_SWAP_OUTSIDE,
                                            a->swap | PERF_SWAP_OUTSIDE),
                             PERF_SWAP_MASK, PERF_SWAP_MASK);
    default: return gw_cmp_swap_op(here, a->here.key, there, a->there.key, 0, a->swap);
    }
}

GW_DEV int perf_post(const struct perf_post_args *a, struct gw_tx *tx, int on, struct gw_op op,
                     uint32_t flags, uint64_t *ticket)
{
    if (a->by == PERF_BY_THREAD) return gw_tx_post(tx, op, flags, ticket);
    if (a->by == PERF_BY_WARP) return gw_tx_post_warp(tx, on, op, flags, ticket);
    return gw_tx_post_block(tx, on, op, flags, ticket);
}

GW_DEV int perf_wait(const struct perf_post_args *a, struct gw_tx *tx, uint64_t ticket)
{
    uint64_t deadline = gw_clock_ns() + a->patience_ns;

    if (a->by == PERF_BY_THREAD) return gw_tx_flush(tx, deadline);
    if (a->by == PERF_BY_WARP) return gw_tx_wait_warp(tx, ticket, deadline);
    return gw_tx_wait_block(tx, ticket, deadline);
}

GW_DEV uint32_t perf_flags(const struct perf_post_args *a, uint64_t post, int last)
{
    return (a->batch > 1 && (post + 1) % a->batch && !last ? GW_DEFER : 0) |
           (a->signal && (post + 1) % a->signal == 0 ? GW_SIGNALED : 0);
}

/* Posts until the count is reached or the time over. op is a constant where it matters. */
GW_DEV void perf_stream(const struct perf_post_args *a, uint32_t op)
{
    struct perf_poster p = perf_me(a->by, a->qps);
    uint64_t start = gw_clock_ns(), stop, ops = 0, post = 0, ticket = 0, stuck = 0;
    uint32_t round = 0;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp[p.qp]);

    while (!err && (!a->count || ops < a->count)) {
        uint64_t left = a->count ? a->count - ops : p.width;
        uint32_t n = left < p.width ? (uint32_t)left : p.width, over = PERF_GO_ON;

        if (stuck || post % 16 == 15) over = perf_over(a, &p, start, stuck);
        if (over) {
            err = over == PERF_STUCK ? -ETIMEDOUT : 0;
            break;
        }
        if (a->pace) perf_wait_turn(a, start, ops);
        err = perf_post(a, &tx, p.lane < n, perf_nth(a, op, &p, ops + p.lane), perf_flags(a, post, left == n),
                        &ticket);
        if (err == -EAGAIN) {
            err = 0;
            if (!stuck) stuck = gw_clock_ns();
            gw_pause(round++);
            continue;
        }
        stuck = round = 0;
        ops += n;
        post++;
    }
    stop = gw_clock_ns();
    if (!err) err = perf_wait(a, &tx, ticket);
    if (!a->post_only) stop = gw_clock_ns();
    if (p.lane) return;
    a->out[p.idx].start = start;
    a->out[p.idx].stop = stop;
    a->out[p.idx].ops = ops;
    a->out[p.idx].err = err;
}

GW_KERNEL(perf_post_kernel, struct perf_post_args, a)
{
    if (a->op == PERF_PUT)
        perf_stream(a, PERF_PUT); /* of a known operation, so that the loop is short */
    else
        perf_stream(a, a->op);
}

/* ---- sends and inline payload, which have no fast call ------------------------------------------------- */

/* Returns as gw_send. The payload is read before it does. */
GW_DEV int perf_inline(struct gw_qp_handle *qp, uint32_t op, uint64_t from, uint32_t size, uint64_t to,
                       uint32_t rkey, uint32_t imm, uint32_t flags)
{
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;
    int err;

    memset(&wr, 0, sizeof(wr));
    sge.addr = from;
    sge.length = size;
    sge.lkey = 0;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = op == PERF_PUT       ? IBV_WR_RDMA_WRITE
                : op == PERF_PUT_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM
                                     : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE | (flags & GW_SIGNALED ? IBV_SEND_SIGNALED : 0);
    wr.imm_data = gw_be32(imm);
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = rkey;
    err = gw_post_send(qp, &wr, &bad);
    return err == ENOMEM ? -EAGAIN : -err;
}

/* Takes completions of the queue pair's sends; all posters of it do. */
GW_DEV int perf_take_sends(const struct perf_post_args *a, uint32_t qp)
{
    struct ibv_wc wc[8];
    int n = gw_poll_cq(a->qp[qp]->send_cq, 8, wc), i, err = 0;

    for (i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS) err = -EIO;
    if (n > 0) gw_add_relaxed_u32_gpu(&a->done[qp], (uint32_t)n);
    return err;
}

/* Counts a signalled request before it is posted, so that no poller sees it complete uncounted. */
GW_DEV int perf_send_one(const struct perf_post_args *a, const struct perf_poster *p, uint64_t n,
                         uint32_t flags)
{
    int err;

    if (flags & GW_SIGNALED) gw_add_relaxed_u32_gpu(&a->sends[p->qp], 1);
    if (a->inl)
        err = perf_inline(a->qp[p->qp], a->op, perf_at(a, &a->here, p, n), a->size,
                          perf_at(a, &a->there, p, n), a->there.key, (uint32_t)n, flags);
    else
        err = gw_send(a->qp[p->qp], perf_at(a, &a->here, p, n), a->here.key, a->size, flags, 0);
    if (err && flags & GW_SIGNALED) gw_add_relaxed_u32_gpu(&a->sends[p->qp], (uint32_t)-1);
    return err;
}

GW_DEV int perf_drain_sends(const struct perf_post_args *a, uint32_t qp)
{
    uint64_t from = gw_clock_ns();
    uint32_t round = 0;
    int err = 0;

    while (!err && gw_ld_relaxed_u32_gpu(&a->done[qp]) != gw_ld_relaxed_u32_gpu(&a->sends[qp])) {
        err = perf_take_sends(a, qp);
        if (!err && gw_clock_ns() - from > a->patience_ns) err = -ETIMEDOUT;
        gw_pause(round++);
    }
    return err;
}

GW_KERNEL(perf_send_kernel, struct perf_post_args, a)
{
    struct perf_poster p = perf_me(PERF_BY_THREAD, a->qps);
    uint64_t start = gw_clock_ns(), ops = 0, stuck = 0;
    uint32_t round = 0, over = PERF_GO_ON;
    int err = 0;

    while (!err && over == PERF_GO_ON) {
        if (stuck || ops % 16 == 15) over = perf_over(a, &p, start, stuck);
        if (over == PERF_STUCK) err = -ETIMEDOUT;
        if (a->count && ops + 1 == a->count) over = PERF_END;
        if (a->pace) perf_wait_turn(a, start, ops);
        /* The last is signalled, and all before it are complete when it is. */
        if (!err) err = perf_send_one(a, &p, ops, over ? GW_SIGNALED : perf_flags(a, ops, 0));
        if (err == -EAGAIN) {
            gw_ring(a->qp[p.qp]);
            err = perf_take_sends(a, p.qp);
            over = PERF_GO_ON;
            if (!stuck) stuck = gw_clock_ns();
            gw_pause(round++);
            continue;
        }
        stuck = round = 0;
        ops += !err;
    }
    if (!err) err = perf_drain_sends(a, p.qp);
    a->out[p.idx].start = start;
    a->out[p.idx].stop = gw_clock_ns();
    a->out[p.idx].ops = ops;
    a->out[p.idx].err = err;
}

/* ---- taking in ----------------------------------------------------------------------------------------- */

GW_DEV void perf_fill_receives(const struct perf_recv_args *a, uint32_t q)
{
    for (;;) {
        uint64_t at = a->here.base + q * a->here.span + a->posted[q] % a->here.slots * a->here.stride;
        int err = a->op == PERF_SEND ? gw_recv(a->qp[q], at, a->here.key, a->here.stride, 0)
                                     : gw_recv_empty(a->qp[q], 1, 0);

        if (err) return;
        gw_st_relaxed_u64(&a->posted[q], a->posted[q] + 1); /* the host looks at the same time */
    }
}

/* Keeps the receive queues full, and counts, until told to stop: then once more, for what had come before. */
GW_KERNEL(perf_recv_kernel, struct perf_recv_args, a)
{
    uint32_t q, round = 0, ending = 0, found;
    struct ibv_wc wc[16];
    int n, i;

    do {
        found = 0;
        if (round % 8 == 0) ending = gw_ld_acquire_u32(a->stop);
        for (q = gw_global_idx(); q < a->qps; q += gw_global_dim()) {
            perf_fill_receives(a, q);
            n = gw_poll_cq(a->cq[q], 16, wc);
            for (i = 0; i < n; i++)
                if (wc[i].status != IBV_WC_SUCCESS)
                    gw_st_relaxed_u32((uint32_t *)a->err, (uint32_t)-EIO), ending = 1;
            if (n > 0) gw_st_relaxed_u64(&a->got[q], a->got[q] + (uint64_t)n);
            found |= n > 0;
        }
        round = found ? 0 : round + 1;
        gw_pause(round);
    } while (found || !ending);
}

#include "src/cli/perf/kernels_lat.h"
