/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong; included by kernels_body.h. */
struct perf_lat {
    const struct perf_lat_args *a;
    struct gw_tx tx;
    uint64_t ticket, deadline;
};

GW_DEV struct gw_op perf_lat_op(const struct perf_lat_args *a, uint64_t i)
{
    switch (a->op) {
    case PERF_PUT: return gw_put_op(a->outbox, a->lkey, a->target, a->rkey, a->size);
    case PERF_PUT_IMM: return gw_put_imm_op(a->outbox, a->lkey, a->target, a->rkey, a->size, (uint32_t)i);
    case PERF_GET: return gw_get_op(a->outbox, a->lkey, a->target, a->rkey, a->size);
    case PERF_FETCH_ADD: return gw_fetch_add_op(a->outbox, a->lkey, a->target, a->rkey, 1);
    default: return gw_cmp_swap_op(a->outbox, a->lkey, a->target, a->rkey, 0, 0);
    }
}

/* A plain put is known at the other end by its last byte, as the round's number. */
GW_DEV int perf_lat_send(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    struct ibv_wc wc[4];
    int err;

    if (a->op == PERF_PUT) gw_st_relaxed_u8((uint8_t *)(uintptr_t)a->outbox + a->size - 1, (uint8_t)(i + 1));
    do {
        if (a->inl || a->op == PERF_SEND) {
            (void)gw_poll_cq(a->qp->send_cq, 4, wc);
            err = a->inl ? perf_inline(a->qp, a->op, a->outbox, a->size, a->target, a->rkey, (uint32_t)i,
                                       GW_SIGNALED)
                         : gw_send(a->qp, a->outbox, a->lkey, a->size, GW_SIGNALED, 0);
        } else {
            err = gw_tx_post(&l->tx, perf_lat_op(a, i), GW_SIGNALED, &l->ticket);
        }
    } while (err == -EAGAIN && gw_clock_ns() < l->deadline);
    return err;
}

GW_DEV int perf_lat_wait_put(struct perf_lat *l, uint64_t i)
{
    const uint8_t *last = (const uint8_t *)(uintptr_t)l->a->inbox + l->a->size - 1;
    uint32_t round = 0;
    struct ibv_wc wc;

    while (gw_ld_acquire_u8(last) != (uint8_t)(i + 1)) {
        gw_pause(round++);
        if (round % 16) continue;
        /* A look at the CQ lets a NIC inside the process run, and tells when the queue pair has failed. */
        if (l->ticket && gw_tx_wait(&l->tx, l->ticket, 0) == -EIO) return -EIO;
        if (l->a->inl && gw_poll_cq(l->a->qp->send_cq, 1, &wc) == 1 && wc.status != IBV_WC_SUCCESS)
            return -EIO;
        if (gw_ld_relaxed_u32(l->a->stop)) return -ECANCELED;
        if (gw_clock_ns() > l->deadline) return -ETIMEDOUT;
    }
    return 0;
}

/* Waits for the peer's i-th message, or for our own get or atomic. */
GW_DEV int perf_lat_wait(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    struct ibv_wc wc;
    int n;

    if (a->op == PERF_PUT) return perf_lat_wait_put(l, i);
    if (a->op != PERF_PUT_IMM && a->op != PERF_SEND) return gw_tx_wait(&l->tx, l->ticket, l->deadline);
    n = gw_wait_cq(a->recv_cq, 1, &wc, l->deadline, a->stop, a->stop_fd);
    if (n == 1 && wc.status != IBV_WC_SUCCESS) return -EIO;
    if (n == 1)
        n = a->op == PERF_SEND ? gw_recv(a->qp, a->inbox, a->lkey, a->room, 0) : gw_recv_empty(a->qp, 1, 0);
    else if (n == 0)
        n = -ETIMEDOUT;
    return n == -EAGAIN ? 0 : n;
}

GW_KERNEL(perf_lat_kernel, struct perf_lat_args, a)
{
    uint64_t start = gw_clock_ns(), now = start, before, i = 0;
    struct perf_lat l;
    int err;

    if (gw_global_idx()) return;
    l.a = a;
    l.ticket = 0;
    err = gw_tx_open(&l.tx, a->qp);
    while (a->op == PERF_SEND && !gw_recv(a->qp, a->inbox, a->lkey, a->room, 0)) continue;
    while (a->op == PERF_PUT_IMM && !gw_recv_empty(a->qp, 1, 0)) continue;
    for (; !err && (a->count ? i < a->count : a->answer || now - start < a->limit_ns) &&
           !gw_ld_relaxed_u32(a->stop);
         i++) {
        before = now;
        l.deadline = now + a->patience_ns;
        if (a->answer) {
            err = perf_lat_wait(&l, i);
            if (!err) err = perf_lat_send(&l, i);
        } else {
            err = perf_lat_send(&l, i);
            if (!err) err = perf_lat_wait(&l, i);
        }
        now = gw_clock_ns();
        if (err) break;
        if (!a->answer) a->ns[i % a->capacity] = (uint32_t)(now - before);
    }
    a->out->start = start;
    a->out->stop = now;
    a->out->ops = i;
    a->out->err = err == -ECANCELED ? 0 : err;
}
