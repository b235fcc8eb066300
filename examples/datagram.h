/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of datagram.c: a server and two clients, which no connection joins. One thread plays all of
 * them. The server answers who asked: the number of the asking queue pair is in the completion, its host in
 * front of the message.
 */
#ifndef GW_EXAMPLES_DATAGRAM_H
#define GW_EXAMPLES_DATAGRAM_H

#include "pair.h"

enum { ROOM = GW_GRH + 64 /* of a receive: datagrams of up to 64 bytes */ };

/* The host's part: where each address handle leads. A kernel cannot make one. */
struct route {
    uint8_t gid[16];
    struct gw_ah_handle ah;
};

struct datagrams {
    struct end end[3]; /* the server, and its clients */
    uint32_t qpn[3];
    uint32_t qkey;
    struct route route;
    int *result;
};

/* Waits for a datagram: its length, or a negative errno. */
GW_DEV int next_datagram(const struct end *e, struct ibv_wc *wc, uint64_t deadline)
{
    if (gw_wait_cq(e->recv_cq, 1, wc, deadline, NULL, -1) != 1) return -ETIMEDOUT;
    return wc->status == IBV_WC_SUCCESS ? (int)wc->byte_len - GW_GRH : -EIO;
}

GW_DEV int same_gid(const uint8_t *a, const uint8_t *b)
{
    int i, differ = 0;

    for (i = 0; i < 16; i++) differ |= a[i] ^ b[i];
    return !differ;
}

/* Takes one question and sends its double back. */
GW_DEV int answer(const struct datagrams *d, uint64_t deadline)
{
    const struct end *e = &d->end[0];
    uint64_t *question = (uint64_t *)((uint8_t *)e->word + GW_GRH);
    struct ibv_wc wc;
    uint8_t gid[16];
    int len = next_datagram(e, &wc, deadline), err;

    if (len < 0) return len;
    err = gw_grh_source(e->word, gid);
    if (err || !same_gid(gid, d->route.gid)) return -EHOSTUNREACH; /* it has but one route */
    *question *= 2;
    err = gw_post_op(e->qp, gw_send_to_op(&d->route.ah, wc.src_qp, d->qkey, e->addr + GW_GRH, e->lkey, 8),
                     GW_SIGNALED, 0);
    if (err || gw_wait_cq(e->send_cq, 1, &wc, deadline, NULL, -1) != 1)
        return -EIO; /* the buffer is free again */
    return gw_recv(e->qp, e->addr, e->lkey, ROOM, 0);
}

/* With the struct calls of libibverbs; the sent bytes lie after the place for the answer. */
GW_DEV int ask(const struct datagrams *d, const struct end *e, uint64_t number)
{
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;

    e->word[32] = number;
    sge.addr = e->addr + 256;
    sge.length = 8;
    sge.lkey = e->lkey;
    memset(&wr, 0, sizeof(wr));
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = gw_ibv_ah(&d->route.ah);
    wr.wr.ud.remote_qpn = d->qpn[0];
    wr.wr.ud.remote_qkey = d->qkey;
    return -gw_post_send(e->qp, &wr, &bad);
}

GW_KERNEL(datagram, struct datagrams, d)
{
    uint64_t deadline = gw_clock_ns() + LIMIT;
    struct ibv_wc wc;
    int err = 0, i;

    if (gw_global_idx()) return;
    for (i = 0; i < 3 && !err; i++) err = gw_recv(d->end[i].qp, d->end[i].addr, d->end[i].lkey, ROOM, 0);
    for (i = 1; i < 3 && !err; i++) {
        err = ask(d, &d->end[i], 20 + (uint64_t)i);
        if (!err) err = answer(d, deadline);
        if (!err && next_datagram(&d->end[i], &wc, deadline) != 8) err = -EIO;
        if (!err && d->end[i].word[GW_GRH / 8] != 2 * (20 + (uint64_t)i)) err = -EBADMSG;
    }
    *d->result = err;
}

/* Takes datagrams and counts their immediates, which are small and each another one: as bits. */
GW_DEV int take_immediates(const struct end *e, uint32_t n, uint32_t *seen, uint64_t deadline)
{
    struct ibv_wc wc;

    for (*seen = 0; n; n--) {
        int len = next_datagram(e, &wc, deadline);

        if (len < 0) return len;
        *seen |= 1u << gw_wc_imm(&wc);
    }
    return 0;
}

/*
 * A client's warp sends a datagram from each of its first lanes, with one reservation and one doorbell:
 * gw_post_op_warp. Then one thread sends one more, and two by tickets, which complete when the packet has
 * left. The server counts.
 */
GW_KERNEL(datagram_warp, struct datagrams, d)
{
    const struct end *e = &d->end[1], *to = &d->end[0];
    uint32_t lane = gw_lane(), lanes = gw_warp_size() < 8 ? gw_warp_size() : 8, i, seen;
    uint64_t deadline = gw_clock_ns() + LIMIT, t = 0;
    struct gw_op hello = gw_send_to_op(&d->route.ah, d->qpn[0], d->qkey, e->addr, e->lkey, 8), mine;
    struct gw_tx tx;
    struct ibv_wc wc;
    int err = 0;

    if (gw_warp_idx()) return;
    for (i = 0; lane == 0 && i < lanes + 3 && !err; i++)
        err = gw_recv(to->qp, to->addr + (i + 1) * 128, to->lkey, ROOM, 0);
    e->word[lane] = lane;
    gw_syncwarp(gw_warp_mask());
    if (gw_any(gw_warp_all(), err)) return;
    mine = gw_send_to_op(&d->route.ah, d->qpn[0], d->qkey, e->addr + 8 * lane, e->lkey, 8);
    err = gw_post_op_warp(e->qp, lane < lanes, gw_with_imm(mine, lane), GW_SIGNALED, lane);
    if (lane) return;
    for (i = 0; i < lanes && !err; i++)
        if (gw_wait_cq(e->send_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err) err = gw_post_op(e->qp, gw_with_imm(hello, lanes), 0, 0);

    if (!err) err = gw_tx_open(&tx, e->qp); /* from here on its send CQ is the library's */
    if (!err) err = gw_tx_post(&tx, gw_with_imm(hello, lanes + 1), GW_DEFER, NULL);
    if (!err) err = gw_tx_post(&tx, hello, 0, &t);
    if (!err) err = gw_tx_wait(&tx, t, deadline);

    if (!err) err = take_immediates(to, lanes + 2, &seen, deadline);
    if (!err && seen != (4u << lanes) - 1) err = -EBADMSG;
    if (!err && (next_datagram(to, &wc, deadline) != 8 || wc.wc_flags & IBV_WC_WITH_IMM)) err = -EBADMSG;
    *d->result = err;
}

#endif
