/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch of direct accesses: requests to one process, of one queue pair or several, that are one copy. A request
 * joins it when all of its pieces are listed, and leaves it copied, or to be sent after all: it and what follows it
 * in its queue pair get the PSNs then that it did not take.
 */
#include "softnic/transport/direct.h"

/* ---- PSNs that are not taken --------------------------------------------------------------------------- */

/* Requests from `at` on, none of which was sent, get their PSNs anew. */
static void renumber(struct sn_qp *qp, uint32_t at, uint32_t psn)
{
    struct sn_requester *r = &qp->req;

    for (; at != r->end; at++) {
        r->ring[at % SN_SQ_WINDOW].psn = psn;
        psn = roce_psn_add(psn, r->ring[at % SN_SQ_WINDOW].packets);
    }
    r->tail_psn = psn;
}

static void take_out(struct sn_qp *qp, struct sn_sreq *s)
{
    bool placed = sn_placed_kind(s);

    s->copying = true;
    qp->req.cur++;
    qp->req.batched++;
    qp->req.batched_placed += placed;
    if (placed) return; /* it is sent all the same */
    s->packets = 0;
    renumber(qp, qp->req.cur, s->psn);
}

/* It, and what follows it, is to be sent after all. */
static void put_back(struct sn_qp *qp, uint32_t at)
{
    struct sn_requester *r = &qp->req;
    uint32_t psn = r->ring[at % SN_SQ_WINDOW].psn;

    for (uint32_t i = at; i != r->cur; i++) {
        struct sn_sreq *s = &r->ring[i % SN_SQ_WINDOW];

        if (s->copying) s->packets = roce_packets(s->wqe->length, qp->mtu);
        s->copying = false;
    }
    r->cur = at;
    renumber(qp, at, psn);
}

/* ---- the batch ----------------------------------------------------------------------------------------- */

void sn_batch_stopped(struct sn_qp *qp, struct sn_sreq *s)
{
    s->by_packets = true;
    sn_count(&qp->nic->count.direct_refused, 1);
}

static bool alive(const struct sn_qp *qp)
{
    return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

static void copied_whole(struct sn_qp *qp, struct sn_sreq *s)
{
    s->copying = false;
    if (sn_placed_kind(s)) {
        s->placed = true;
        return;
    }
    sn_count(&qp->nic->count.direct_requests, 1);
    sn_sq_complete(qp);
}

/* What was placed is to be sent: the queue pair goes on there. */
static void go_on(const struct sn_direct_item *it)
{
    struct sn_qp *qp = it->qp;
    struct sn_requester *r = &qp->req;

    if (alive(qp) && r->ring[it->at % SN_SQ_WINDOW].placed && (int32_t)(it->at - r->cur) < 0) r->cur = it->at;
    if (alive(qp) && (r->cur != r->end || qp->sq_next != qp->sq_pi || qp->sqd_notify)) sn_qp_wake(qp);
    r->batched = r->batched_placed = 0;
}

static void finish(struct sn_direct *d, int64_t copied)
{
    bool failed = false;

    for (unsigned i = 0; i < d->items; i++) {
        struct sn_direct_item *it = &d->item[i];
        struct sn_qp *qp = it->qp;
        struct sn_sreq *s = &qp->req.ring[it->at % SN_SQ_WINDOW];

        copied -= it->bytes;
        /* Its queue pair may have failed, or it was put back, with one before it. */
        if (!alive(qp) || !s->copying) continue;
        if (!failed && copied >= 0) {
            copied_whole(qp, s);
        } else {
            if (!failed) sn_batch_stopped(qp, s);
            failed = true;
            put_back(qp, it->at);
        }
    }
    for (unsigned i = 0; i < d->items; i++) go_on(&d->item[i]);
    for (unsigned i = 0; i < d->items; i++) sn_sq_rest(d->item[i].qp);
}

static int64_t copy(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    const struct sn_copy c = {d->write,       d->here,    d->there,   d->here_count,
                              d->there_count, d->by_here, d->by_there};
    int64_t copied = d->near.ops->copy(d->near.ctx, d->peer, &c);

    sn_count(&nic->count.direct_copies, 1);
    if (copied > 0 && (d->by_here.dma || d->by_there.dma))
        sn_count(&nic->count.direct_gpu_bytes, (uint64_t)copied);
    return copied;
}

/* Nothing is under way in the peer's memory any more: it may take it away. */
static void leave(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    d->near.ops->leave(d->near.ctx, d->peer);
    d->peer = NULL;
    d->here_count = d->there_count = 0;
    sn_activity(nic);
}

int64_t sn_batch_copy_alone(struct sn_nic *nic)
{
    int64_t copied = copy(nic);

    leave(nic);
    return copied;
}

bool sn_direct_flush(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    int64_t copied = 0;

    if (!d->peer) return false;
    if (d->there_count) {
        copied = copy(nic);
        if (copied > 0) sn_count(&nic->count.direct_bytes, (uint64_t)copied);
    }
    leave(nic);
    finish(d, copied);
    d->items = 0;
    d->bytes = 0;
    return true;
}

bool sn_batch_fits(const struct sn_direct *d, const struct sn_peer *peer, bool write)
{
    return d->peer == peer && d->write == write && d->items < SN_DIRECT_ITEMS &&
           d->here_count + GW_MLX5_MAX_DS <= SN_DIRECT_HERE;
}

bool sn_batch_open(struct sn_nic *nic, struct sn_near near, struct sn_peer *peer, bool write)
{
    struct sn_direct *d = &nic->direct;

    if (d->peer) return true;
    if (!near.ops->enter(near.ctx, peer, nic->now)) return false;
    d->near = near;
    d->peer = peer;
    d->write = write;
    return true;
}

void sn_batch_join(struct sn_qp *qp, struct sn_sreq *s, uint32_t len)
{
    struct sn_direct *d = &qp->nic->direct;

    d->item[d->items++] = (struct sn_direct_item){qp, qp->req.cur, len};
    d->bytes += len;
    take_out(qp, s);
}
