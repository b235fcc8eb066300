/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct access to peers on the same host: the requester executes a WRITE without immediate data, or a READ,
 * by a copy between the two processes. It does not send it. It takes no PSNs. The bytes of a WRITE with
 * immediate data go in the same way, ahead of a frame that says so: eager_copy.c.
 *
 * A request may go like this only if nothing of its queue pair is under way before it. Then all earlier
 * requests have been executed, as an RC queue pair promises, and have succeeded. Requests that follow each
 * other join one batch, also those of several queue pairs to one process. A copy keeps the order of its
 * pieces. Batches end one after the other, though some may be under way at once (direct_batch.c).
 *
 * Whatever is not plainly allowed goes by packets. So the responder finds and reports errors, at both ends,
 * in one way only.
 */
#include <gpuwire/detail/held.h>

#include "softnic/transport/direct.h"

enum {
    CHUNK = 1 << 20,    /* bytes copied at once: no thread waits longer than that takes for the lock */
    CHUNK_BUDGET = 32,  /* packets that a chunk counts as */
    BATCHED_MAX = 8192, /* a longer request in plain memory is copied without waiting for others */
    SMALL = 4096,
};

/* Pieces that continue each other are one: a program that writes a buffer bit by bit costs one piece. Not
 * where memory is a GPU's: what is in one piece comes in any order there, and requests come one after the
 * other. */
static void direct_add(const struct sn_direct *d, struct iovec *list, unsigned *n, uint64_t addr,
                       uint64_t len)
{
    struct iovec *last = *n && !d->by_here.dma && !d->by_there.dma ? &list[*n - 1] : NULL;

    if (last && (uintptr_t)last->iov_base + last->iov_len == addr)
        last->iov_len += len;
    else
        list[(*n)++] = (struct iovec){(void *)(uintptr_t)addr, len};
}

/* All of a batch is reached in one way at each end. */
static bool direct_same_kind(struct sn_direct *d, struct sn_reach *by, unsigned n, struct sn_reach wanted)
{
    if (!n) *by = wanted;
    if (sn_same_reach(*by, wanted)) return true;
    d->other_kind = sn_batch_has_items(d);
    return false;
}

static bool add_piece(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr)
{
    struct sn_direct *d = arg;

    if (!direct_same_kind(d, &d->by_here, d->here_count, sn_mr_reach(mr))) return false;
    direct_add(d, d->here, &d->here_count, mr ? mr->init.addr + (p->addr - mr->init.iova) : (uintptr_t)p->inl,
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

static bool direct_is_read(const struct sn_sreq *s)
{
    return s->wqe->opcode == GW_MLX5_READ;
}

static bool granted(struct sn_qp *qp, const struct sn_sreq *s, uint64_t *addr)
{
    struct sn_direct *d = &qp->nic->direct;
    struct sn_reach by;
    const struct sn_peers peers = d->peers;
    struct sn_peer_access a = {.src_qpn = qp->number,
                               .dst_qpn = qp->attr.dest_qp_num,
                               .rkey = s->wqe->rkey,
                               .access = direct_is_read(s) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
                               .va = s->wqe->raddr,
                               .length = s->wqe->length};

    sn_qp_peer_terms(qp, &a.terms);
    if (s->wqe->length > SN_MAX_MSG || !peers.ops->grant(peers.ctx, d->peer, &a, addr, &by)) return false;
    return !s->wqe->length || direct_same_kind(d, &d->by_there, d->there_count, by);
}

static bool inside_cqe(const struct sn_qp *qp, const struct sn_sreq *s)
{
    return direct_is_read(s) && s->wqe->length && s->wqe->length <= qp->init.scatter_req;
}

/* Puts the next `len` bytes of the request into the batch, or takes the batch back to where it was. */
static bool direct_gather(struct sn_qp *qp, struct sn_sreq *s, uint32_t len)
{
    struct sn_direct *d = &qp->nic->direct;
    struct iovec last = d->here_count ? d->here[d->here_count - 1] : (struct iovec){NULL, 0};
    unsigned before = d->here_count;
    uint64_t addr;
    bool ok = granted(qp, s, &addr);

    if (ok && inside_cqe(qp, s)) {
        ok = direct_same_kind(d, &d->by_here, d->here_count, sn_mr_reach(NULL));
        if (ok) direct_add(d, d->here, &d->here_count, (uintptr_t)qp->req.scatter, len);
    } else if (ok) {
        ok = add_here(qp, s, s->copied, len);
    }
    if (ok && sn_eager_kind(s)) ok = sn_eager_worth(qp, s, d->by_here.dma || d->by_there.dma);
    if (!ok) {
        d->here_count = before;
        if (before) d->here[before - 1] = last;
        sn_batch_rest(qp->nic); /* nothing is left open */
        return false;
    }
    if (len) direct_add(d, d->there, &d->there_count, addr + s->copied, len);
    return true;
}

/* One chunk of a long request, at once. */
static bool chunk(struct sn_qp *qp, struct sn_sreq *s)
{
    uint32_t cost = CHUNK_BUDGET < qp->nic->budget ? CHUNK_BUDGET : qp->nic->budget - 1;
    int64_t copied;

    if (!direct_gather(qp, s, CHUNK)) return false;
    copied = sn_batch_copy_alone(qp->nic);
    qp->nic->budget -= cost;
    if (copied != CHUNK) {
        sn_batch_stopped(qp, s);
        return false;
    }
    sn_count(&qp->nic->count.direct_bytes, CHUNK);
    s->copied += CHUNK;
    return true;
}

/* Is it better copied at once? */
static bool enough(const struct sn_direct *d, uint32_t len)
{
    return d->by_here.dma && d->by_there.dma ? sn_batch_enough(d) : len > BATCHED_MAX;
}

static bool last_part(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_direct *d = &qp->nic->direct;
    uint32_t len = s->wqe->length - s->copied;

    if (!direct_gather(qp, s, len)) return false;
    sn_batch_join(qp, s, len);
    /* Answers in CQEs have one place per queue pair. */
    if (inside_cqe(qp, s))
        sn_direct_drain(qp->nic);
    else if (enough(d, len))
        sn_batch_close(qp->nic);
    return true;
}

/* Are requests before the next one in a batch? Then all before them is done, or placed. */
static bool in_batch(const struct sn_qp *qp)
{
    return qp->req.early.batched && (int32_t)(qp->req.early.batched_from - qp->req.cur) < 0;
}

/* What is gathered, or under way, of the queue pair goes first: its end wakes it. */
static bool behind_own(struct sn_qp *qp, enum sn_step *did)
{
    if (sn_batch_has_items(&qp->nic->direct)) sn_batch_close(qp->nic);
    *did = qp->req.early.batched ? SN_IDLE : SN_DID;
    return true;
}

/* Some batch has to end: then it is woken, in turn. */
static bool behind_others(struct sn_qp *qp, enum sn_step *did)
{
    qp->copy_waits = true;
    *did = SN_FULL;
    return true;
}

/* What is gathered lies in memory that is reached in another way: it is put on its way before this one
 * joins. */
static bool make_way(struct sn_qp *qp, enum sn_step *did)
{
    sn_batch_close(qp->nic);
    return !sn_batch_has_items(&qp->nic->direct) || behind_others(qp, did);
}

/* Does it wait for answers to those before it? Packets may be as quick. */
static bool direct_waits(struct sn_qp *qp, const struct sn_sreq *s)
{
    return sn_eager_kind(s) ? sn_eager_waits(qp, s) : s->wqe->length > SMALL;
}

/* May its bytes be copied now? */
static bool is_next(const struct sn_qp *qp, const struct sn_sreq *s)
{
    if (qp->req.una == qp->req.cur) return true;
    return sn_eager_kind(s) ? sn_eager_may_follow(qp) : in_batch(qp);
}

static bool may_go(struct sn_qp *qp, struct sn_sreq *s)
{
    const struct sn_requester *r = &qp->req;

    if (qp->nic->cfg.hostile || s->by_packets || qp->init.type != IBV_QPT_RC) return false;
    /* Part of it was sent: now it can only be sent again. */
    if (r->cur_packet || roce_psn_diff(s->psn, r->max_psn) < 0) return false;
    return s->wqe->opcode == GW_MLX5_WRITE || direct_is_read(s) || sn_eager_wanted(qp, s);
}

static bool try_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did)
{
    struct sn_peers peers = sn_peers_of(qp);
    struct sn_direct *d = &qp->nic->direct;
    bool whole = s->wqe->length - s->copied <= CHUNK;
    struct sn_peer *peer;

    if (!peers.ops || !may_go(qp, s)) return false;
    *did = SN_DID;
    if (!sn_batch_room(qp->nic)) return behind_others(qp, did);
    peer = peers.ops->find(peers.ctx, qp->peer.gid, qp->attr.dest_qp_num);
    if (!peer) return false;
    /* It has to wait for all others', so that they do not go on forever before it. */
    if (d->peer && (!whole || !sn_batch_fits(d, peer, !direct_is_read(s)))) return sn_direct_drain(qp->nic);
    /* Placed bytes may have to be sent again, over the bytes of this write. */
    if (qp->req.early.batched_eager && !sn_eager_kind(s)) return behind_own(qp, did);
    if (!is_next(qp, s)) {
        if (!direct_waits(qp, s)) return false;
        *did = SN_IDLE; /* the answers to what is under way wake the queue pair */
        return true;
    }
    if (!sn_batch_open(qp->nic, peers, peer, !direct_is_read(s))) return false;
    d->other_kind = false;
    if (whole ? last_part(qp, s) : chunk(qp, s)) return true;
    return d->other_kind && make_way(qp, did);
}

bool sn_direct_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (try_step(qp, s, did)) return true;
    if (!in_batch(qp)) return false;
    /* Its packets must not overtake those in the batch. */
    return behind_own(qp, did);
}
