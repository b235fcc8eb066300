/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

/* Ping-pong; included by kernels_body.h. */
struct perf_lat {
    const struct perf_lat_args *a;
    struct gw_tx tx;
    uint64_t ticket, deadline;
    uint64_t signalled; /* the signal's word as it was seen last */
    uint64_t checked, wrong;
};

/* A byte of the i-th message of one side; never 0, and never that of the message before. */
GW_DEV uint8_t perf_lat_byte(uint64_t i, uint32_t answer, uint32_t at)
{
    return (uint8_t)(((uint32_t)(i * 2 + answer + 1) * 0x9e3779b1u + at * 2654435761u) >> 24 | 1);
}

GW_DEV void perf_lat_fill(const struct perf_lat_args *a, uint64_t i)
{
    for (uint32_t at = 0; at < a->size; at++)
        gw_st_relaxed_u8((uint8_t *)(uintptr_t)a->outbox + at, perf_lat_byte(i, a->answer, at));
}

/* While the NIC may still write: what has come must be there already, and not only when the kernel has
 * ended. */
GW_DEV void perf_lat_look(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    const uint8_t *in = (const uint8_t *)(uintptr_t)a->inbox + (a->op == PERF_DATAGRAM ? PERF_GRH : 0);

    for (uint32_t at = 0; at < a->size; at++)
        l->wrong += gw_ld_relaxed_u8(in + at) != perf_lat_byte(i, !a->answer, at);
    l->checked += a->size;
}

GW_DEV struct gw_op perf_lat_op(const struct perf_lat_args *a, uint64_t i)
{
    switch (a->op) {
    case PERF_PUT: return gw_put_op(a->outbox, a->lkey, a->target, a->rkey, a->size);
    case PERF_PUT_IMM: return gw_put_imm_op(a->outbox, a->lkey, a->target, a->rkey, a->size, (uint32_t)i);
    case PERF_GET: return gw_get_op(a->outbox, a->lkey, a->target, a->rkey, a->size);
    case PERF_SIGNAL: /* with any value the word grows */
        return gw_with_signal(gw_put_op(a->outbox, a->lkey, a->target, a->rkey, a->size), a->signal_target,
                              a->rkey, i + 1);
    case PERF_DATAGRAM:
        return gw_with_imm(gw_send_to_op(&a->ah, a->peer_qpn, PERF_QKEY, a->outbox, a->lkey, a->size),
                           (uint32_t)i);
    case PERF_FETCH_ADD: return gw_fetch_add_op(a->outbox, a->lkey, a->target, a->rkey, 1);
    case PERF_MASKED_ADD:
        return gw_masked_fetch_add_op(a->outbox, a->lkey, a->target, a->rkey, PERF_FIELDS_ADD,
                                      PERF_FIELDS_BOUNDARY);
    case PERF_MASKED_SWAP:
        return gw_with_masks(gw_cmp_swap_op(a->outbox, a->lkey, a->target, a->rkey, PERF_SWAP_OUTSIDE, 0),
                             PERF_SWAP_MASK, PERF_SWAP_MASK);
    default: return gw_cmp_swap_op(a->outbox, a->lkey, a->target, a->rkey, 0, 0);
    }
}

GW_DEV int perf_lat_post(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    struct ibv_wc wc[4];
    int err;

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

/* A plain put is known at the other end by its last byte, as the round's number. */
GW_DEV int perf_lat_send(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;

    if (a->verify) perf_lat_fill(a, i);
    if (a->op == PERF_PUT) gw_st_relaxed_u8((uint8_t *)(uintptr_t)a->outbox + a->size - 1, (uint8_t)(i + 1));
    return perf_lat_post(l, i);
}

/* The signal's word only grows, and only the peer changes it. */
GW_DEV bool perf_lat_came(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    uint64_t word;

    if (a->op == PERF_PUT)
        return gw_ld_acquire_u8((const uint8_t *)(uintptr_t)a->inbox + a->size - 1) == (uint8_t)(i + 1);
    word = gw_ld_acquire_u64((const uint64_t *)(uintptr_t)a->signal);
    if (word == l->signalled) return false;
    l->signalled = word;
    return true;
}

GW_DEV int perf_lat_wait_put(struct perf_lat *l, uint64_t i)
{
    uint32_t round = 0;
    struct ibv_wc wc;

    while (!perf_lat_came(l, i)) {
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

/* Takes the datagram of this completion, and gives its receive back. 1: it is the i-th. */
GW_DEV int perf_lat_take(struct perf_lat *l, uint64_t i, const struct ibv_wc *wc)
{
    const struct perf_lat_args *a = l->a;
    int is, err;

    if (wc->status != IBV_WC_SUCCESS) return -EIO;
    is = gw_wc_imm(wc) == (uint32_t)i;
    if (is && a->verify) perf_lat_look(l, i);
    err = gw_recv(a->qp, a->inbox, a->lkey, a->room, 0);
    return err && err != -EAGAIN ? err : is;
}

/*
 * A datagram may get lost: in the network, or because its receiver has not begun. Then the side that asks
 * repeats its own. The answering side may get the same question twice, and answers again.
 */
GW_DEV int perf_lat_wait_datagram(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    struct ibv_wc wc;

    for (;;) {
        uint64_t until = gw_clock_ns() + PERF_REPEAT_NS;
        int n, again, err = 0;

        if (a->answer || until > l->deadline) until = l->deadline;
        n = gw_wait_cq(a->recv_cq, 1, &wc, until, a->stop, a->stop_fd);
        again = n == -ETIMEDOUT && !a->answer;
        if (n == 1) {
            n = perf_lat_take(l, i, &wc);
            if (n == 1) return 0;
            again = n == 0 && a->answer && i && gw_wc_imm(&wc) == (uint32_t)i - 1;
        } else if (n != -ETIMEDOUT || gw_clock_ns() >= l->deadline) {
            return n;
        }
        if (n < 0 && n != -ETIMEDOUT) return n;
        if (again) err = perf_lat_post(l, a->answer ? i - 1 : i); /* what it was is in the outbox still */
        if (err) return err;
    }
}

/* Waits for the peer's i-th message, or for our own get or atomic. */
GW_DEV int perf_lat_wait(struct perf_lat *l, uint64_t i)
{
    const struct perf_lat_args *a = l->a;
    struct ibv_wc wc;
    int n;

    if (a->op == PERF_PUT || a->op == PERF_SIGNAL) {
        n = perf_lat_wait_put(l, i);
        if (!n && a->verify) perf_lat_look(l, i);
        return n;
    }
    if (a->op == PERF_GET || a->op >= PERF_FETCH_ADD) return gw_tx_wait(&l->tx, l->ticket, l->deadline);
    if (a->op == PERF_DATAGRAM) return perf_lat_wait_datagram(l, i);
    n = gw_wait_cq(a->recv_cq, 1, &wc, l->deadline, a->stop, a->stop_fd);
    if (n == 1 && wc.status != IBV_WC_SUCCESS) return -EIO;
    if (n == 1 && a->verify) perf_lat_look(l, i);
    if (n == 1)
        n = a->op != PERF_PUT_IMM ? gw_recv(a->qp, a->inbox, a->lkey, a->room, 0)
                                  : gw_recv_empty(a->qp, 1, 0);
    return n == -EAGAIN ? 0 : n;
}

GW_KERNEL(perf_lat_kernel, struct perf_lat_args, a)
{
    uint64_t start = gw_clock_ns(), now = start, before, i = 0;
    struct perf_lat l;
    int err;

    if (gw_global_idx()) return;
    l.a = a;
    l.ticket = l.signalled = l.checked = l.wrong = 0;
    err = gw_tx_open(&l.tx, a->qp);
    while ((a->op == PERF_SEND || a->op == PERF_DATAGRAM) && !gw_recv(a->qp, a->inbox, a->lkey, a->room, 0))
        continue;
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
    a->out->checked = l.checked;
    a->out->wrong = l.wrong;
    a->out->err = err == -ECANCELED ? 0 : err;
}
