/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that the receiver fetches. A long SEND or WRITE to a peer on the same host leaves as packets.
 * Their payload is not the bytes but where these lie. The responder copies them from there to their place,
 * once.
 *
 * An offer is the packet that a path MTU of SN_RNDV_CHUNK would give. It stands for as many packets, and
 * PSNs, as the path's own MTU makes of it. So order, receives, rights, acknowledgements, RNR, repeats and
 * errors are those of packets. The connection's fate does not depend on which way the parts of a message
 * went.
 *
 * While it copies, the responder follows the rules of any peer that accesses the requester's memory. It asks
 * for each piece, by its lkey, whether it is still lent, and memory that goes waits for it. If it cannot
 * copy, it answers as for a lost packet, and the requester then sends this request's bytes. These show what
 * was wrong.
 */
#include <errno.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"

enum {
    MIN = 16384,     /* below, two copies cost less than the answers that a window of offers waits for */
    COST_SHIFT = 15, /* bytes copied that count as a packet */
};

/* ---- the requester's side ------------------------------------------------------------------------------ */

uint32_t sn_rndv_min(uint32_t configured)
{
    return configured ? configured : MIN;
}

static bool is_offerable(uint8_t opcode)
{
    switch (opcode) {
    case GW_MLX5_SEND:
    case GW_MLX5_SEND_IMM:
    case GW_MLX5_SEND_INVAL:
    case GW_MLX5_WRITE:
    case GW_MLX5_WRITE_IMM: return true;
    default: return false;
    }
}

bool sn_rndv_wanted(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_peers peers = sn_peers_of(qp);

    if (s->wqe->length < qp->nic->cfg.rndv_min || s->by_packets || !is_offerable(s->wqe->opcode))
        return false;
    /* A packet's payload may have begun where no offer does. */
    if (qp->req.cur_packet % (SN_RNDV_CHUNK / qp->mtu) || qp->nic->cfg.hostile) return false;
    if (!peers.ops || !peers.ops->pulls(peers.ctx, qp->peer.gid, qp->attr.dest_qp_num)) return false;
    if (!qp->req.early.rndv_skip) return true;
    qp->req.early.rndv_skip--;
    s->by_packets = true;
    return false;
}

static struct roce_seg rendezvous_segment_of(const struct sn_qp *qp, const struct sn_sreq *s)
{
    return roce_segment(sn_requester_kind(s->wqe->opcode), s->wqe->length, SN_RNDV_CHUNK,
                        qp->req.cur_packet / (SN_RNDV_CHUNK / qp->mtu));
}

uint32_t sn_rndv_packets(const struct sn_qp *qp, const struct sn_sreq *s)
{
    return roce_packets(rendezvous_segment_of(qp, s).length, qp->mtu);
}

bool sn_rndv_window_open(const struct sn_qp *qp, uint32_t n)
{
    int32_t out = roce_psn_diff(sn_requester_psn(qp), qp->req.una_psn);

    return out <= 0 || ((uint64_t)out + n) * qp->mtu <= SN_RNDV_WINDOW;
}

struct list {
    struct sn_rndv_piece *piece;
    unsigned n;
    bool loop; /* to this NIC itself, which reaches all of them */
};

static bool list_piece(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr)
{
    struct list *l = arg;

    if (!mr || l->n == SN_RNDV_PIECES || !(l->loop || sn_mr_published(mr))) return false;
    l->piece[l->n++] = (struct sn_rndv_piece){p->addr, p->length, p->lkey};
    return true;
}

bool sn_rndv_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    struct roce_seg seg = rendezvous_segment_of(qp, s);
    struct roce_hdr h = {.opcode = seg.opcode | qp->service, .psn = sn_requester_psn(qp), .ackreq = true};
    struct sn_rndv_piece piece[SN_RNDV_PIECES];
    struct list l = {piece, 0, qp->peer.loop};

    s->by_packets = !sn_sreq_pieces(qp, s, seg.offset, seg.length, 0, list_piece, &l);
    if (s->by_packets) return false;
    memcpy(frame + roce_ops[h.opcode].hdr_len, piece, l.n * sizeof(*piece));
    sn_requester_fill(&h, w, seg.last);
    sn_tx_end(qp, frame, &h, l.n * (uint32_t)sizeof(*piece));
    sn_tx_mark_rndv(qp);
    qp->req.since_ackreq = 0;
    s->rndv = true;
    sn_count(&qp->nic->count.rndv_sent, 1);
    return true;
}

void sn_rndv_unanswered(struct sn_qp *qp, bool refused)
{
    struct sn_requester *r = &qp->req;
    struct sn_sreq *s = r->una != r->end ? &r->ring[r->una % SN_SQ_WINDOW] : NULL;

    if (!s || !s->rndv || s->by_packets) return;
    if (s->eager) {
        sn_eager_unanswered(qp, refused);
        return;
    }
    s->by_packets = true;
    if (refused) r->early.rndv_skip = SN_RNDV_SKIP;
}

/* ---- the responder's side ------------------------------------------------------------------------------ */

bool sn_rndv_parse(struct sn_rndv *o, const uint8_t *payload, uint32_t len)
{
    uint64_t total = 0;

    o->n = len / sizeof(o->piece[0]);
    if (!o->n || o->n > SN_RNDV_PIECES || len % sizeof(o->piece[0])) return false;
    memcpy(o->piece, payload, len);
    for (unsigned i = 0; i < o->n; i++) total += o->piece[i].length;
    o->length = (uint32_t)total;
    return total && total <= SN_RNDV_CHUNK;
}

/* Where the pieces are in the peer's memory. False: one of them is not lent (any more), or they are not all
 * reached in one way. */
static bool grant_all(struct sn_qp *qp, struct sn_peers peers, struct sn_peer *peer, const struct sn_rndv *o,
                      struct iovec *there, struct sn_reach *by)
{
    for (unsigned i = 0; i < o->n; i++) {
        struct sn_peer_access a = {.src_qpn = qp->number,
                                   .dst_qpn = qp->attr.dest_qp_num,
                                   .rkey = o->piece[i].lkey,
                                   .va = o->piece[i].va,
                                   .length = o->piece[i].length};
        struct sn_reach this_by;
        uint64_t addr;

        sn_qp_peer_terms(qp, &a.terms);
        if (!peers.ops->grant(peers.ctx, peer, &a, &addr, &this_by)) return false;
        if (i && !sn_same_reach(*by, this_by)) return false;
        *by = this_by;
        there[i] = (struct iovec){(void *)(uintptr_t)addr, o->piece[i].length};
    }
    return true;
}

bool sn_rndv_pull(struct sn_qp *qp, const struct sn_rndv *o, const struct sn_places *here)
{
    struct sn_nic *nic = qp->nic;
    struct sn_peers peers = sn_peers_of(qp);
    struct iovec there[SN_RNDV_PIECES];
    struct sn_copy c = {
        .here = here->piece, .n_here = here->n, .by_here = here->by, .there = there, .n_there = o->n};
    struct sn_peer *peer = NULL;
    int64_t copied = -EPERM;
    uint32_t cost = o->length >> COST_SHIFT;
    bool inside;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (peers.ops && !nic->cfg.hostile) peer = peers.ops->find(peers.ctx, qp->peer.gid, qp->attr.dest_qp_num);
    inside = peer && sn_direct_is_inside(nic, peer);
    if (!peer || (!inside && !peers.ops->enter(peers.ctx, peer, nic->now))) return false;
    if (grant_all(qp, peers, peer, o, there, &c.by_there))
        copied = peers.ops->copy(peers.ctx, peer, &c, NULL);
    if (!inside) peers.ops->leave(peers.ctx, peer);
    nic->budget -= cost < nic->budget ? cost : nic->budget;
    if (copied != o->length) return false;
    sn_count(&nic->count.rndv_taken, 1);
    sn_count(&nic->count.rndv_bytes, o->length);
    return true;
}
