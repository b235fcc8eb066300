/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placed messages. Such a message is a WRITE with immediate data to a peer on the same host. The requester
 * has copied its bytes to their place before it sends it, as direct.c does, and with the same rights. What it
 * then sends is one frame that carries none and stands for as many packets, and PSNs, as they would take. So
 * order, the receive that it consumes, rights, acknowledgement, RNR, repeats and errors are those of packets.
 *
 * Bytes are copied once, before the first frame, never when it is repeated: the receiver may have its
 * completion by then, and the memory be its program's. A peer that does not believe it, or answers nothing,
 * gets the bytes, and if it had the message it takes them for a repeat. Bytes placed after it go as packets
 * too: otherwise the older bytes could come last.
 *
 * A message may be placed while others are not acknowledged, if those are placed ones or have no bytes. So
 * after a message that the receiver is not ready for, memory may hold the next ones' bytes early, as it may
 * hold the first packets of one. A request that changes bytes when it is executed is awaited, or the message
 * goes after it as packets.
 *
 * The responder believes what comes through shared memory alone, and of memory alone that it has lent that
 * peer: who could have written there. And only while no other request has changed bytes since: a frame may be
 * late, and those before it may have come as packets since. So a frame carries the PSN, its base, from which
 * on all requests before it were placed, or had no bytes, when its bytes were.
 */
#include <string.h>

#include "softnic/transport/transport.h"

enum { BASE_LEN = 4, FAR = 1 << 22 };

/* ---- the requester's side ------------------------------------------------------------------------------ */

bool sn_eager_kind(const struct sn_sreq *s)
{
    return s->wqe->opcode == GW_MLX5_WRITE_IMM;
}

bool sn_eager_like(const struct sn_sreq *s)
{
    return s->eager || (sn_eager_kind(s) && !s->wqe->length);
}

bool sn_eager_wanted(struct sn_qp *qp, struct sn_sreq *s)
{
    if (!sn_eager_kind(s) || !s->wqe->length || s->eager) return false;
    if (!qp->req.early.eager_skip) return true;
    qp->req.early.eager_skip--;
    s->by_packets = true;
    return false;
}

void sn_eager_not_before(struct sn_requester *r, uint32_t at)
{
    if ((int32_t)(at - r->early.other_end) >= 0) r->early.other_end = at + 1;
}

bool sn_eager_may_follow(const struct sn_qp *qp)
{
    return (int32_t)(qp->req.early.other_end - qp->req.una) <= 0;
}

/* Packets to and from a GPU's memory are dear. In plain memory bytes arrive as soon with a short message. The
 * bytes of a long one are better fetched, into the cache of their reader, unless the reader is behind. A
 * process that receives from many does two copies, to one of each sender. */
bool sn_eager_worth(struct sn_qp *qp, const struct sn_sreq *s, bool dma)
{
    struct sn_peers peers = sn_peers_of(qp);

    return dma || (s->wqe->length >= qp->nic->cfg.rndv_min &&
                   (!peers.ops->pulls(peers.ctx, qp->peer.gid, qp->attr.dest_qp_num) ||
                    peers.ops->lags(peers.ctx, qp->nic->direct.peer)));
}

static bool note_dma(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr)
{
    bool *dma = arg;

    (void)p;
    *dma |= sn_mr_reach(mr).dma != NULL;
    return true;
}

/* That of the peer is not looked at yet. */
bool sn_eager_waits(struct sn_qp *qp, const struct sn_sreq *s)
{
    bool dma = false;

    return sn_sreq_pieces(qp, s, 0, s->wqe->length, 0, note_dma, &dma) && dma;
}

/* From this request on all bytes that were placed are sent. */
static void take_back(struct sn_qp *qp, uint32_t from)
{
    struct sn_requester *r = &qp->req;

    for (; from != r->end; from++) {
        struct sn_sreq *s = &r->ring[from % SN_SQ_WINDOW];

        if (!sn_eager_kind(s) || (!s->eager && !s->copied && !s->copying)) continue;
        s->eager = false;
        s->by_packets = true;
        sn_eager_not_before(r, from);
    }
}

/* A peer that is not found any more is reached by the wire, if at all. */
bool sn_eager_stands(struct sn_qp *qp)
{
    struct sn_peers peers = sn_peers_of(qp);

    if (!qp->req.cur_packet && peers.ops && peers.ops->find(peers.ctx, qp->peer.gid, qp->attr.dest_qp_num))
        return true;
    take_back(qp, qp->req.cur);
    return false;
}

bool sn_eager_window_open(const struct sn_qp *qp, const struct sn_sreq *s)
{
    int32_t out = roce_psn_diff(s->psn, qp->req.una_psn);

    if (out <= 0) return true;
    return !qp->req.probing && ((uint64_t)out + s->packets) * qp->mtu <= SN_RNDV_WINDOW;
}

void sn_eager_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY_IMM | qp->service,
                         .psn = s->psn,
                         .ackreq = true,
                         .solicited = w->solicited,
                         .va = w->raddr,
                         .rkey = w->rkey,
                         .dlen = w->length,
                         .imm_be = w->imm_be};
    uint32_t base_be = gw_be32(qp->req.una_psn);

    /* As long as it stands as placed nothing that is under way is executed otherwise: take_back. */
    memcpy(frame + roce_ops[h.opcode].hdr_len, &base_be, BASE_LEN);
    sn_tx_end(qp, frame, &h, BASE_LEN);
    sn_tx_mark_rndv(qp);
    qp->req.since_ackreq = 0;
    s->rndv = true;
    sn_count(&qp->nic->count.eager_sent, 1);
}

void sn_eager_unanswered(struct sn_qp *qp, bool refused)
{
    take_back(qp, qp->req.una);
    if (refused) qp->req.early.eager_skip = SN_RNDV_SKIP;
}

/* ---- the responder's side ------------------------------------------------------------------------------ */

bool sn_eager_is(const struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, uint32_t len)
{
    return f->rndv && len == BASE_LEN && qp->init.type == IBV_QPT_RC &&
           h->opcode == (ROCE_WRITE_ONLY_IMM | ROCE_RC);
}

void sn_eager_parse(const uint8_t *payload, const struct roce_hdr *h, struct sn_body *body)
{
    uint32_t base_be;

    memcpy(&base_be, payload, BASE_LEN);
    body->eager = true;
    body->base = gw_be32(base_be) & 0xffffff;
    body->length = h->dlen;
}

/* PSNs are compared by half of their circle: what is long past is moved on, to where no base can be. */
void sn_eager_executed(struct sn_qp *qp, uint32_t psn, bool changed)
{
    struct sn_responder *r = &qp->resp;

    if (changed)
        r->changed_psn = psn;
    else if (roce_psn_diff(psn, r->changed_psn) > FAR)
        r->changed_psn = roce_psn_add(r->changed_psn, FAR / 2);
}

/* Windows are not lent to other processes, and the bytes may lie where another region's memory was before. */
bool sn_eager_believed(struct sn_qp *qp, const struct sn_mr *mr, const struct sn_body *body)
{
    struct sn_peers peers = sn_peers_of(qp);

    if (qp->nic->cfg.hostile || !peers.ops || !peers.ops->lends(peers.ctx) || !sn_qp_takes_direct(qp))
        return false;
    if (mr->window || mr->changed || !(qp->peer.loop ? sn_mr_copies(mr) : sn_mr_published(mr))) return false;
    if (roce_psn_diff(body->base, qp->resp.changed_psn) <= 0) return false;
    sn_count(&qp->nic->count.eager_taken, 1);
    return true;
}
