/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/lists.h"

#include <string.h>

#include "tests/verbs/pair.h"

#define SLOT 2048u

/* Cuts a slot into one to four pieces, some of them empty. */
static int pieces(struct rnd *r, struct ibv_sge *sge, uint64_t off, uint32_t len)
{
    int n = 1 + (int)rnd_below(r, SGES);

    for (int i = 0; i < n; i++) {
        uint32_t part = i == n - 1 ? len : rnd_below(r, 3) ? rnd_below(r, len + 1) : 0;

        sge[i].addr = off;
        sge[i].length = part;
        off += part;
        len -= part;
    }
    return n;
}

static void add_recv(struct rnd *r, struct batch *b, int slot, uint32_t len)
{
    struct ibv_recv_wr *w = &b->recv[b->recvs];
    uint32_t room = len + rnd_below(r, 64);

    if (!rnd_below(r, 250) && len) room = len - 1, b->broken = 1; /* too short */
    w->wr_id = rnd64(r);
    w->sg_list = b->recv_sge[b->recvs];
    w->num_sge = pieces(r, w->sg_list, HALF + 32768 + (uint64_t)slot * SLOT, room);
    if (b->recvs) w[-1].next = w;
    b->recvs++;
}

/* To the peer, now and then with a wrong Q_Key (which no receive waits for), or what ends the sender. */
static void add_datagram(struct rnd *r, struct batch *b, int i, uint32_t len, uint32_t mtu, bool *ended)
{
    static const enum ibv_wr_opcode wrong[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
    struct ibv_send_wr *w = &b->wr[i];
    uint32_t what = rnd_below(r, 1000);

    w->wr.ud.remote_qkey = PAIR_QKEY ^ !rnd_below(r, 10);
    if (what < 4) {
        w->opcode = wrong[what];
    } else if (what < 7) {
        w->num_sge = 1;
        w->sg_list->length = mtu + 1;
        w->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    }
    *ended = *ended || what < 7;
    b->broken = b->broken || *ended;
    if (w->wr.ud.remote_qkey == PAIR_QKEY) add_recv(r, b, i, GW_GRH + len);
    if (!*ended) b->sure = b->recvs;
}

/* The numbers are small, so that a comparison is now and then right. */
static void make_atomic(struct rnd *r, struct batch *b, int i)
{
    struct ibv_send_wr *w = &b->wr[i];
    bool add = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

    w->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    w->num_sge = 1;
    w->sg_list->addr = 32768 + (uint64_t)i * SLOT + 8 * rnd_below(r, 100);
    w->sg_list->length = 8;
    w->wr.atomic.remote_addr = HALF + COUNTERS + (add ? 0 : 16) + 8 * rnd_below(r, 2);
    w->wr.atomic.compare_add = add ? rnd64(r) : rnd_below(r, 3);
    w->wr.atomic.swap = rnd_below(r, 3);
    if (rnd_below(r, 500)) return;
    b->broken = 1;
    w->wr.atomic.remote_addr += rnd_below(r, 2) ? 1u << 30 : 4; /* nowhere, or not aligned */
}

static void add_remote(struct rnd *r, struct batch *b, int i, uint32_t len)
{
    struct ibv_send_wr *w = &b->wr[i];

    if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        make_atomic(r, b, i);
        return;
    }
    w->wr.rdma.remote_addr = HALF + (w->opcode == IBV_WR_RDMA_READ ? 16384u : 0u) + (uint64_t)i * SLOT;
    if (w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM) add_recv(r, b, i, len);
    if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) add_recv(r, b, i, 0);
    if (rnd_below(r, 500)) return;
    b->broken = 1; /* a wrong address; READ and WRITE only, a SEND has none */
    w->wr.rdma.remote_addr += 1u << 30;
}

/* Requests that both libraries refuse. first: nothing is posted before it. After others libmlx5 gives up a
 * request with too much inline payload when it has begun its WQE, and then rings with what lay there before.
 */
static void spoil(struct rnd *r, struct ibv_send_wr *w, bool first)
{
    switch (rnd_below(r, first ? 3 : 2)) {
    case 0: w->num_sge = 100; break;
    case 1: w->opcode = (enum ibv_wr_opcode)(90 + rnd_below(r, 10)); break;
    default:
        w->send_flags |= IBV_SEND_INLINE;
        w->num_sge = 1;
        w->sg_list->length = 1500;
        if (w->opcode > IBV_WR_SEND_WITH_IMM) w->opcode = IBV_WR_RDMA_WRITE;
        break;
    }
}

/* Everything of a request but where it goes; returns its payload's length. */
static uint32_t make_wr(struct rnd *r, struct batch *b, int i, bool ud)
{
    static const enum ibv_wr_opcode op[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
    struct ibv_send_wr *w = &b->wr[i];
    bool inl = !rnd_below(r, 3);
    uint32_t len = rnd_below(r, 4) ? rnd_below(r, inl ? INLINE + 1 : 1900) : rnd_below(r, 2);

    w->opcode = op[rnd_below(r, ud ? 2 : 7)];
    w->wr_id = rnd64(r);
    w->sg_list = b->sge[i];
    w->next = i + 1 < b->n ? w + 1 : NULL;
    w->send_flags = (rnd_below(r, 2) || i + 1 == b->good ? IBV_SEND_SIGNALED : 0) |
                    (rnd_below(r, 4) ? 0 : IBV_SEND_FENCE) | (rnd_below(r, 4) ? 0 : IBV_SEND_SOLICITED);
    if (inl && w->opcode != IBV_WR_RDMA_READ && len <= INLINE) w->send_flags |= IBV_SEND_INLINE;
    w->imm_data = (uint32_t)rnd64(r);
    w->num_sge = pieces(r, w->sg_list, (w->opcode == IBV_WR_RDMA_READ ? 32768 : 0) + (uint64_t)i * SLOT, len);
    return len;
}

void lists_make(struct rnd *r, struct batch *b, uint32_t mtu)
{
    bool ended = false;

    memset(b, 0, sizeof(*b));
    b->n = 1 + (int)rnd_below(r, BATCH);
    b->good = rnd_below(r, 12) ? b->n : (int)rnd_below(r, (uint32_t)b->n);
    for (int i = 0; i < b->n; i++) {
        uint32_t len = make_wr(r, b, i, mtu);

        if (i > b->good) continue;
        if (i == b->good)
            spoil(r, &b->wr[i], i == 0);
        else if (mtu)
            add_datagram(r, b, i, len, mtu, &ended);
        else
            add_remote(r, b, i, len);
        b->sends += i < b->good && b->wr[i].send_flags & IBV_SEND_SIGNALED;
    }
    if (rnd_below(r, 20)) return;
    add_recv(r, b, 0, 0);
    b->recv[--b->recvs].num_sge = 100;
    b->refused = 1;
}

void lists_place(struct batch *to, struct batch *seen, const struct batch *from, const struct place *p)
{
    *to = *from;
    for (int i = 0; i < to->n; i++) {
        struct ibv_send_wr *w = &to->wr[i];

        w->sg_list = seen->sge[i];
        w->next = i + 1 < to->n ? &seen->wr[i + 1] : NULL;
        if (p->ah) {
            w->wr.ud.ah = p->ah;
            w->wr.ud.remote_qpn = p->qpn;
        } else if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
            w->wr.atomic.remote_addr += p->base;
            w->wr.atomic.rkey = p->rkey;
        } else {
            w->wr.rdma.remote_addr += p->base;
            w->wr.rdma.rkey = p->rkey;
        }
        for (int k = 0; k < SGES; k++) to->sge[i][k].addr += p->base, to->sge[i][k].lkey = p->lkey;
    }
    for (int i = 0; i < to->recvs + to->refused; i++) {
        to->recv[i].sg_list = seen->recv_sge[i];
        to->recv[i].next = i + 1 < to->recvs + to->refused ? &seen->recv[i + 1] : NULL;
        for (int k = 0; k < SGES; k++) to->recv_sge[i][k].addr += p->base, to->recv_sge[i][k].lkey = p->lkey;
    }
}
