/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct access to peers on the same host: a WRITE without immediate data or a READ is executed by the
 * requester, by a copy between the two processes, instead of being sent. It takes no PSNs. The bytes of a WRITE
 * with immediate data go in the same way, ahead of a frame that says so: placed.c.
 *
 * Only a request before which nothing of its queue pair is under way may go like this: then all that was
 * posted earlier has been executed, as an RC queue pair promises, and it has ended well. Requests that follow
 * each other join one batch, also those of several queue pairs to one process: a copy keeps the order of its
 * pieces.
 *
 * Whatever is not plainly allowed goes by packets. So errors are found and told by the responder, at both
 * ends, in one way only.
 */
#include <errno.h>
#include <string.h>

#include "softnic/engine/engine.h"

enum {
    CHUNK = 1 << 20,    /* bytes copied at once: nobody waits longer than that takes for the lock */
    CHUNK_BUDGET = 32,  /* a chunk counts as so many packets */
    BATCHED_MAX = 8192, /* a longer request is copied without waiting for others */
    /* A batch within a GPU is copied when it is so long: beginning and end cost as much as 100 KiB. */
    BATCHED_GPU = 512 << 10,
    SMALL = 4096,
};

/* ---- what peers are told ------------------------------------------------------------------------------- */

bool sn_direct_takes(const struct sn_qp *qp)
{
    if (qp->resp.fatal || (qp->init.type != IBV_QPT_RC && qp->init.type != IBV_QPT_XRC_SEND)) return false;
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) return true;
    /* In RTR the first packet is an event, which direct accesses would not make. */
    return qp->state == IBV_QPS_RTR && qp->resp.established;
}

uint32_t sn_direct_access(const struct sn_qp *qp)
{
    return qp->init.type == IBV_QPT_RC ? qp->attr.qp_access_flags : 0;
}

void sn_direct_tell_queue(struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;
    uint32_t pd = qp->init.pd ? qp->init.pd->number : 0; /* XRC_RECV has none, and takes none either */
    struct sn_peer_queue q = {qp->attr.dest_qp_num, sn_direct_access(qp), pd, qp->peer.gid};
    bool takes = !qp->peer.loop && sn_direct_takes(qp);

    if (!c->peers || (!takes && !qp->told)) return;
    qp->told = takes;
    c->peers->queue(c->peers_ctx, qp->number, takes ? &q : NULL);
}

void sn_direct_tell_region(struct sn_mr *mr, bool gone)
{
    const struct sn_nic_config *c = &mr->pd->nic->cfg;
    struct sn_peer_region r = {.iova = mr->init.iova,
                               .addr = mr->init.addr,
                               .length = mr->init.length,
                               .access = mr->init.access,
                               .pd = mr->pd->number,
                               .gpu = sn_mr_share(mr)};

    if (!c->peers || !sn_mr_told(mr)) return;
    c->peers->region(c->peers_ctx, mr->key, gone ? NULL : &r);
}

void sn_direct_quiesce(struct sn_nic *nic)
{
    if (nic->cfg.peers) nic->cfg.peers->quiesce(nic->cfg.peers_ctx);
}

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

/* The copy stopped in this request: packets find out why. */
static void stopped(struct sn_qp *qp, struct sn_sreq *s)
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
            if (!failed) stopped(qp, s);
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

bool sn_direct_flush(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    int64_t copied = 0;

    if (!d->peer) return false;
    if (d->there_count) {
        copied = copy(nic);
        if (copied > 0) sn_count(&nic->count.direct_bytes, (uint64_t)copied);
    }
    d->near.ops->leave(d->near.ctx, d->peer);
    d->peer = NULL;
    sn_activity(nic);
    finish(d, copied);
    d->items = d->here_count = d->there_count = 0;
    d->bytes = 0;
    return true;
}

/* Can more go into the batch that is open? */
static bool fits(const struct sn_direct *d, const struct sn_peer *peer, bool write)
{
    return d->peer == peer && d->write == write && d->items < SN_DIRECT_ITEMS &&
           d->here_count + GW_MLX5_MAX_DS <= SN_DIRECT_HERE;
}

static bool open_batch(struct sn_nic *nic, struct sn_near near, struct sn_peer *peer, bool write)
{
    struct sn_direct *d = &nic->direct;

    if (d->peer) return true;
    if (!near.ops->enter(near.ctx, peer, nic->now)) return false;
    d->near = near;
    d->peer = peer;
    d->write = write;
    return true;
}

/* Pieces that continue each other are one: a program that writes a buffer bit by bit costs one piece. Not where memory
 * is a GPU's: what is in one piece comes in any order there, and requests come one after the other. */
static void add(const struct sn_direct *d, struct iovec *list, unsigned *n, uint64_t addr, uint64_t len)
{
    struct iovec *last = *n && !d->by_here.dma && !d->by_there.dma ? &list[*n - 1] : NULL;

    if (last && (uintptr_t)last->iov_base + last->iov_len == addr)
        last->iov_len += len;
    else
        list[(*n)++] = (struct iovec){(void *)(uintptr_t)addr, len};
}

/* ---- one request --------------------------------------------------------------------------------------- */

/* All of a batch is reached in one way at each end. */
static bool same_kind(struct sn_direct *d, struct sn_reach *by, unsigned n, struct sn_reach wanted)
{
    if (!n) *by = wanted;
    if (sn_same_reach(*by, wanted)) return true;
    d->other_kind = d->items;
    return false;
}

static bool add_piece(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr)
{
    struct sn_direct *d = arg;

    if (!same_kind(d, &d->by_here, d->here_count, sn_mr_reach(mr))) return false;
    add(d, d->here, &d->here_count, mr ? mr->init.addr + (p->addr - mr->init.iova) : (uintptr_t)p->inl,
        p->length);
    return true;
}

/* The pieces of this process's memory from `skip` bytes on, `len` bytes of them. False: packets will say why
 * not. */
static bool add_here(struct sn_qp *qp, const struct sn_sreq *s, uint32_t skip, uint32_t len)
{
    struct sn_direct *d = &qp->nic->direct;

    return sn_sreq_pieces(qp, s, skip, len, d->write ? 0 : IBV_ACCESS_LOCAL_WRITE, add_piece, d);
}

static bool is_read(const struct sn_sreq *s)
{
    return s->wqe->opcode == GW_MLX5_READ;
}

static bool granted(struct sn_qp *qp, const struct sn_sreq *s, uint64_t *addr)
{
    struct sn_direct *d = &qp->nic->direct;
    struct sn_reach by;
    const struct sn_near near = d->near;
    const struct sn_peer_access a = {.src_qpn = qp->number,
                                     .dst_qpn = qp->attr.dest_qp_num,
                                     .rkey = s->wqe->rkey,
                                     .access = is_read(s) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
                                     .va = s->wqe->raddr,
                                     .length = s->wqe->length};

    if (s->wqe->length > SN_MAX_MSG || !near.ops->grant(near.ctx, d->peer, &a, addr, &by)) return false;
    return !s->wqe->length || same_kind(d, &d->by_there, d->there_count, by);
}

static bool inside_cqe(const struct sn_qp *qp, const struct sn_sreq *s)
{
    return is_read(s) && s->wqe->length && s->wqe->length <= qp->init.scatter_req;
}

/* Puts the next `len` bytes of the request into the batch, or takes the batch back to where it was. */
static bool gather(struct sn_qp *qp, struct sn_sreq *s, uint32_t len)
{
    struct sn_direct *d = &qp->nic->direct;
    struct iovec last = d->here_count ? d->here[d->here_count - 1] : (struct iovec){NULL, 0};
    unsigned before = d->here_count;
    uint64_t addr;
    bool ok = granted(qp, s, &addr);

    if (ok && inside_cqe(qp, s)) {
        ok = same_kind(d, &d->by_here, d->here_count, sn_mr_reach(NULL));
        if (ok) add(d, d->here, &d->here_count, (uintptr_t)qp->req.scatter, len);
    } else if (ok) {
        ok = add_here(qp, s, s->copied, len);
    }
    if (ok && sn_placed_kind(s)) ok = sn_placed_worth(qp, s, d->by_here.dma || d->by_there.dma);
    if (!ok) {
        d->here_count = before;
        if (before) d->here[before - 1] = last;
        if (!d->items) sn_direct_flush(qp->nic); /* nothing is left open */
        return false;
    }
    if (len) add(d, d->there, &d->there_count, addr + s->copied, len);
    return true;
}

/* One chunk of a long request, at once. */
static bool chunk(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_direct *d = &qp->nic->direct;
    uint32_t cost = CHUNK_BUDGET < qp->nic->budget ? CHUNK_BUDGET : qp->nic->budget - 1;
    int64_t copied;

    if (!gather(qp, s, CHUNK)) return false;
    copied = copy(qp->nic);
    d->near.ops->leave(d->near.ctx, d->peer);
    d->peer = NULL;
    d->here_count = d->there_count = 0;
    sn_activity(qp->nic);
    qp->nic->budget -= cost;
    if (copied != CHUNK) {
        stopped(qp, s);
        return false;
    }
    sn_count(&qp->nic->count.direct_bytes, CHUNK);
    s->copied += CHUNK;
    return true;
}

/* Is it better copied at once? */
static bool enough(const struct sn_direct *d, uint32_t len)
{
    return d->by_here.dma && d->by_there.dma ? d->bytes >= BATCHED_GPU : len > BATCHED_MAX;
}

static bool last_part(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_direct *d = &qp->nic->direct;
    uint32_t len = s->wqe->length - s->copied;

    if (!gather(qp, s, len)) return false;
    d->item[d->items++] = (struct sn_direct_item){qp, qp->req.cur, len};
    d->bytes += len;
    take_out(qp, s);
    /* Answers in CQEs have one place per queue pair. */
    if (enough(d, len) || inside_cqe(qp, s)) sn_direct_flush(qp->nic);
    return true;
}

/* Are requests of this queue pair in the batch? Then all before them is done, or placed. */
static bool in_batch(const struct sn_qp *qp)
{
    return qp->req.batched != 0;
}

/* Does it wait for answers to those before it? Packets may be as quick. */
static bool waits(struct sn_qp *qp, const struct sn_sreq *s)
{
    return sn_placed_kind(s) ? sn_placed_waits(qp, s) : s->wqe->length > SMALL;
}

/* May its bytes be copied now? */
static bool is_next(const struct sn_qp *qp, const struct sn_sreq *s)
{
    if (qp->req.una == qp->req.cur) return true;
    return sn_placed_kind(s) ? sn_placed_may_follow(qp) : in_batch(qp);
}

static bool may_go(struct sn_qp *qp, struct sn_sreq *s)
{
    const struct sn_requester *r = &qp->req;

    if (qp->nic->cfg.hostile || s->by_packets || qp->init.type != IBV_QPT_RC) return false;
    /* Part of it was sent: now it can only be sent again. */
    if (r->cur_packet || roce_psn_diff(s->psn, r->max_psn) < 0) return false;
    return s->wqe->opcode == GW_MLX5_WRITE || is_read(s) || sn_placed_wanted(qp, s);
}

static bool try_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did)
{
    struct sn_near near = sn_near_of(qp);
    struct sn_direct *d = &qp->nic->direct;
    bool whole = s->wqe->length - s->copied <= CHUNK;
    struct sn_peer *peer;

    if (!near.ops || !may_go(qp, s)) return false;
    peer = near.ops->find(near.ctx, qp->peer.gid, qp->attr.dest_qp_num);
    if (!peer) return false;
    *did = SN_DID;
    /* What is in the batch goes first; then this is looked at again. */
    if (d->peer && (!whole || !fits(d, peer, !is_read(s)))) return sn_direct_flush(qp->nic);
    /* What was placed may have to be sent again, over what this writes. */
    if (qp->req.batched_placed && !sn_placed_kind(s)) return sn_direct_flush(qp->nic);
    if (!is_next(qp, s)) {
        if (!waits(qp, s)) return false;
        *did = SN_IDLE; /* the answers to what is under way wake the queue pair */
        return true;
    }
    if (!open_batch(qp->nic, near, peer, !is_read(s))) return false;
    d->other_kind = false;
    if (whole ? last_part(qp, s) : chunk(qp, s)) return true;
    return d->other_kind && sn_direct_flush(qp->nic);
}

bool sn_direct_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did)
{
    if (try_step(qp, s, did)) return true;
    if (!in_batch(qp)) return false;
    /* Its packets must not overtake those in the batch. */
    *did = SN_DID;
    return sn_direct_flush(qp->nic);
}
