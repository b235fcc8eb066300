/* SPDX-License-Identifier: Apache-2.0 */
/* Included by datagram_kernels.c for the CPU and by datagram_kernels.cu for the GPU. */
#include "tests/verbs/datagram_kernels.h"

GW_DEV void crowd_wrong(const struct crowd_args *a)
{
    gw_add_relaxed_u32_gpu(&a->count[1], 1);
}

GW_DEV uint64_t crowd_place(const struct crowd_args *a, uint32_t to, uint64_t i)
{
    return (to * (uint64_t)a->recvs + i) * CROWD_ROOM;
}

/* There is room, for as many are posted as have been taken in. */
GW_DEV int crowd_recv(const struct crowd_args *a, uint32_t to, uint64_t i)
{
    return gw_recv(a->to[to], a->recv_addr + crowd_place(a, to, i), a->lkey, CROWD_ROOM, i);
}

/* Thread t sends this as its i-th: a few words, now and then no more than the immediate. */
GW_DEV uint32_t crowd_len(const struct crowd_args *a, uint32_t t, uint32_t i)
{
    if (!a->form) return 4 * ((t + i) % (CROWD_WORDS + 1));
    /* In a warp or block with tickets all have payload, or none has. */
    return i % 4 ? 4 * (1 + (t + i) % CROWD_WORDS) : 0;
}

GW_DEV uint32_t crowd_word(uint32_t t, uint32_t i, uint32_t k)
{
    return (t * 2654435761u ^ i * 40503u) + k;
}

GW_DEV void crowd_check(const struct crowd_args *a, uint32_t to, const struct ibv_wc *wc)
{
    const uint8_t *at = a->recv + crowd_place(a, to, wc->wr_id);
    uint32_t imm = gw_wc_imm(wc), t = imm >> 16, i = imm & 0xffff, len = crowd_len(a, t, i), word, k;

    if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV || t >= gw_global_dim() ||
        (t + i) % CROWD_TO != to || wc->wc_flags != (IBV_WC_GRH | IBV_WC_WITH_IMM) ||
        wc->src_qp != a->from_qpn || wc->byte_len != GW_GRH + len) {
        crowd_wrong(a);
        return;
    }
    for (k = 0; k < len / 4; k++) {
        memcpy(&word, at + GW_GRH + 4 * k, 4);
        if (word != crowd_word(t, i, k)) crowd_wrong(a);
    }
    /* Each thread sends its next when this one has arrived, so that they come in order, and once. */
    if (gw_add_relaxed_u32_gpu(&a->seen[t], 1) != i) crowd_wrong(a);
}

GW_DEV void crowd_take_in(const struct crowd_args *a)
{
    struct ibv_wc wc[8];
    uint32_t to;
    int n, i;

    for (to = 0; to < CROWD_TO; to++) {
        n = gw_poll_cq(a->to_cq[to], 8, wc);
        for (i = 0; i < n; i++) {
            crowd_check(a, to, &wc[i]);
            if (crowd_recv(a, to, wc[i].wr_id)) crowd_wrong(a);
        }
    }
}

GW_DEV void crowd_poll(const struct crowd_args *a)
{
    struct ibv_wc wc[8];
    int n = gw_poll_cq(a->from_cq, 8, wc), i;

    for (i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS || wc[i].opcode != IBV_WC_SEND) crowd_wrong(a);
    if (n > 0) gw_add_relaxed_u32_gpu(&a->count[0], (uint32_t)n);
    crowd_take_in(a);
}

/* Writes what thread t sends as its i-th, and returns where: its address for the NIC. */
GW_DEV uint64_t crowd_fill(const struct crowd_args *a, uint32_t t, uint32_t i)
{
    uint32_t k;

    for (k = 0; k < crowd_len(a, t, i) / 4; k++) a->send[t * CROWD_WORDS + k] = crowd_word(t, i, k);
    return a->send_addr + t * (uint64_t)(4 * CROWD_WORDS);
}

/* 0, or a negative errno: the queue is full. */
GW_DEV int crowd_send(const struct crowd_args *a, uint32_t t, uint32_t i)
{
    uint32_t to = (t + i) % CROWD_TO, len = crowd_len(a, t, i);
    uint64_t addr = crowd_fill(a, t, i);

    if (a->warp)
        return gw_post_op_warp(
            a->from, 1,
            gw_with_imm(gw_send_to_op(&a->ah, a->qpn[to], a->qkey, addr, a->lkey, len), t << 16 | i),
            GW_SIGNALED, i);
    return gw_post_op(
        a->from, gw_with_imm(gw_send_to_op(&a->ah, a->qpn[to], a->qkey, addr, a->lkey, len), t << 16 | i),
        GW_SIGNALED, i);
}

/* Posted by one thread, before any sends. */
GW_DEV void crowd_receives(const struct crowd_args *a)
{
    uint32_t i;

    for (i = 0; !gw_global_idx() && i < CROWD_TO * a->recvs; i++)
        if (crowd_recv(a, i % CROWD_TO, i / CROWD_TO)) crowd_wrong(a);
    gw_syncthreads();
}

GW_KERNEL(crowd_kernel, struct crowd_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    uint32_t t = gw_global_idx(), i = 0, sent = 0, round = 0, over;

    crowd_receives(a);
    for (i = 0; i < a->each;) {
        if (!sent) sent = !crowd_send(a, t, i);
        crowd_poll(a);
        /* A warp goes on together, because it sends together. */
        over = sent && gw_ld_acquire_u32_gpu(&a->seen[t]) > i;
        if (a->warp) over = gw_all(gw_warp_mask(), (int)over) != 0;
        if (over) {
            i++;
            sent = 0;
            continue;
        }
        gw_pause(round++);
        over = gw_clock_ns() > deadline;
        if (a->warp) over = gw_any(gw_warp_mask(), (int)over) != 0;
        if (!over) continue;
        gw_add_relaxed_u32_gpu(&a->count[2], 1);
        return;
    }
    while (gw_ld_relaxed_u32_gpu(&a->count[0]) < gw_global_dim() * a->each && gw_clock_ns() < deadline) {
        crowd_poll(a);
        gw_pause(round++);
    }
}

/* ---- with tickets -------------------------------------------------------------------------------------- */

GW_DEV int ticket_post(const struct crowd_args *a, struct gw_tx *tx, struct gw_op op, uint64_t *ticket)
{
    if (a->form == CROWD_BLOCK) return gw_tx_post_block(tx, 1, op, 0, ticket);
    if (a->form == CROWD_WARP) return gw_tx_post_warp(tx, 1, op, 0, ticket);
    return gw_tx_post(tx, op, 0, ticket);
}

GW_DEV int ticket_wait(const struct crowd_args *a, struct gw_tx *tx, uint64_t ticket, uint64_t deadline)
{
    if (a->form == CROWD_BLOCK) return gw_tx_wait_block(tx, ticket, deadline);
    if (a->form == CROWD_WARP) return gw_tx_wait_warp(tx, ticket, deadline);
    return gw_tx_wait(tx, ticket, deadline);
}

/* One datagram, from the post to its arrival. Errors are the same in all threads of a form. */
GW_DEV int ticket_send(const struct crowd_args *a, struct gw_tx *tx, uint32_t i, uint64_t deadline)
{
    uint32_t t = gw_global_idx(), to = (t + i) % CROWD_TO, round = 0;
    struct gw_op op = gw_with_imm(
        gw_send_to_op(&a->ah, a->qpn[to], a->qkey, crowd_fill(a, t, i), a->lkey, crowd_len(a, t, i)),
        t << 16 | i);
    uint64_t ticket = 0;
    int err;

    do {
        err = ticket_post(a, tx, op, &ticket);
        if (err == -EAGAIN) crowd_take_in(a);
    } while (err == -EAGAIN);
    if (!err) err = ticket_wait(a, tx, ticket, deadline);
    if (err) return err;
    gw_add_relaxed_u32_gpu(&a->count[0], 1);
    for (; gw_ld_acquire_u32_gpu(&a->seen[t]) <= i; gw_pause(round++)) {
        crowd_take_in(a);
        if (gw_clock_ns() < deadline) continue;
        gw_add_relaxed_u32_gpu(&a->count[2], 1);
        break;
    }
    return 0;
}

GW_KERNEL(tickets_kernel, struct crowd_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    struct gw_tx tx;
    uint32_t i;
    int err = gw_tx_open(&tx, a->from);

    crowd_receives(a);
    for (i = 0; !err && i < a->each; i++) err = ticket_send(a, &tx, i, deadline);
    if (err) crowd_wrong(a);
}
