/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of datagram.c: a server and two clients, which no connection joins. One thread plays all of them. The server
 * answers who asked: the number of the asking queue pair is in the completion, its host in front of the message.
 */
#ifndef GW_EXAMPLES_DATAGRAM_H
#define GW_EXAMPLES_DATAGRAM_H

#include "examples/pair.h"

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
    err = gw_send_to(e->qp, &d->route.ah, wc.src_qp, d->qkey, e->addr + GW_GRH, e->lkey, 8, GW_SIGNALED, 0);
    if (err || gw_wait_cq(e->send_cq, 1, &wc, deadline, NULL, -1) != 1)
        return -EIO; /* the buffer is free again */
    return gw_recv(e->qp, e->addr, e->lkey, ROOM, 0);
}

/* With the struct calls of libibverbs; what is sent lies behind the place for the answer. */
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

#endif
