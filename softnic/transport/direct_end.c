/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How batches of direct accesses end: what that means to the requests in them. One is done, or a placed one
 * is announced. From the first on that was not copied, they are sent after all, with the PSNs that they did
 * not take.
 */
#include <gpuwire/detail/assert.h>

#include "softnic/transport/direct.h"
#include "src/trace/trace.h"

/* ---- PSNs that are not taken --------------------------------------------------------------------------- */

void sn_batch_renumber(struct sn_qp *qp, uint32_t at, uint32_t psn)
{
    struct sn_requester *r = &qp->req;

    for (; at != r->end; at++) {
        r->ring[at % SN_SQ_WINDOW].psn = psn;
        psn = roce_psn_add(psn, r->ring[at % SN_SQ_WINDOW].packets);
    }
    r->tail_psn = psn;
}

static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* It, and what follows it, is to be sent after all. */
static void put_back(struct sn_qp *qp, uint32_t at)
{
    struct sn_requester *r = &qp->req;
    uint32_t psn = r->ring[at % SN_SQ_WINDOW].psn;

    for (uint32_t i = at; i != r->end; i++) {
        struct sn_sreq *s = &r->ring[i % SN_SQ_WINDOW];

        if (s->copying) s->packets = roce_packets(s->wqe->length, qp->mtu);
        s->copying = false;
    }
    if (is_before(at, r->cur)) r->cur = at;
    sn_batch_renumber(qp, at, psn);
}

/* ---- ended ----------------------------------------------------------------------------------------- */

void sn_batch_stopped(struct sn_qp *qp, struct sn_sreq *s)
{
    s->by_packets = true;
    sn_count(&qp->nic->count.direct_refused, 1);
}

static void copied_whole(struct sn_qp *qp, struct sn_sreq *s)
{
    s->copying = false;
    if (sn_eager_kind(s)) {
        s->eager = !s->by_packets; /* requests before it are sent as packets at the same time: eager_copy.c */
        return;
    }
    GW_TRACE(softnic, copied, qp->number, s->index);
    sn_count(&qp->nic->count.direct_requests, 1);
    sn_sq_complete(qp);
}

/* Placed bytes are to be sent: the queue pair goes on there. */
static void direct_end_go_on(const struct sn_direct_item *it)
{
    struct sn_qp *qp = it->qp;
    struct sn_requester *r = &qp->req;

    if (!sn_qp_sends(qp)) return;
    if (it->eager && is_before(it->at, r->cur)) r->cur = it->at;
    if (r->cur != r->end || qp->sq_next != qp->sq_pi || qp->sqd_notify) sn_qp_wake(qp);
}

/* Its place in the queue pair is no longer counted. False: that is all that there is to do. */
static bool taken_from(const struct sn_direct_item *it)
{
    struct sn_requester *r = &it->qp->req;

    GW_ASSERT(r->early.batched > 0 && (!it->eager || r->early.batched_eager > 0));
    r->early.batched--;
    r->early.batched_eager -= it->eager;
    r->early.batched_from = it->at + 1;
    /* Its queue pair may have failed, or it was put back, with one before it. */
    return sn_qp_sends(it->qp) && r->ring[it->at % SN_SQ_WINDOW].copying;
}

void sn_batch_end(const struct sn_batch *b)
{
    int64_t copied = b->copied;
    bool failed = false;

    for (unsigned i = 0; i < b->items; i++) {
        const struct sn_direct_item *it = &b->item[i];

        copied -= it->bytes;
        if (!taken_from(it)) continue;
        struct sn_sreq *s = &it->qp->req.ring[it->at % SN_SQ_WINDOW];
        if (!failed && copied >= 0) {
            copied_whole(it->qp, s);
        } else {
            if (!failed) sn_batch_stopped(it->qp, s);
            failed = true;
            put_back(it->qp, it->at);
        }
    }
    for (unsigned i = 0; i < b->items; i++) direct_end_go_on(&b->item[i]);
    for (unsigned i = 0; i < b->items; i++) sn_sq_rest(b->item[i].qp);
}
