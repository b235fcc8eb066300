/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets, out and in. Frames are built in place in a ring, from which the wire takes them. Frames for a
 * queue pair of the same NIC go through a ring of their own and never see the wire. A packet that comes in is
 * checked before anything is believed.
 */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

/* ---- out ----------------------------------------------------------------------------------------------- */

static bool full(const struct sn_ring *ring)
{
    return ring->tail - ring->head == SN_TX_FRAMES;
}

void sn_route_set(struct sn_nic *nic, struct sn_route *to, const uint8_t gid[16], uint32_t qpn)
{
    const struct sn_nic_config *c = &nic->cfg;

    memcpy(to->gid, gid, 16);
    to->qpn = qpn;
    to->path = sn_path_between(c->gid, gid);
    to->path.sport = c->sport;
    to->icrc_len = 0;
    to->gone = to->stray = false;
    to->pkey = ROCE_DEFAULT_PKEY;
    to->loop = !c->loop_on_wire && memcmp(gid, c->gid, 16) == 0 && qpn >> 16 == c->slot;
}

bool sn_gid_there(const struct sn_nic *nic, unsigned index)
{
    return index < nic->cfg.gids && !(nic->cfg.gids_empty >> index & 1);
}

void sn_route_from(const struct sn_nic *nic, struct sn_route *to, unsigned sgid_index, unsigned pkey_index)
{
    static const uint8_t nobody[16];

    to->pkey = nic->cfg.pkey[pkey_index];
    if (nic->cfg.gids_own >> sgid_index & 1) return;
    /* Peers know this NIC by its address alone: neither side finds the other. */
    memcpy(to->gid, nobody, 16);
    to->stray = true;
    to->loop = false;
}

uint8_t *sn_tx_begin_to(struct sn_nic *nic, const struct sn_route *to)
{
    struct sn_ring *ring = to->loop ? &nic->loop : &nic->tx;

    GW_ASSERT_HELD(&nic->lock);
    if (full(ring) && !to->loop && !nic->tx_blocked) sn_tx_push(nic);
    return full(ring) ? NULL : ring->data[ring->tail % SN_TX_FRAMES];
}

/* Another process's, perhaps. The number of queue pair 1 does not say whose it is. */
static bool may_be_same_host(const struct sn_route *to)
{
    return !to->loop && to->qpn != ROCE_GSI_QPN;
}

static bool stays_in_memory(const struct sn_nic *nic, const struct sn_route *to)
{
    const struct sn_nic_config *c = &nic->cfg;

    if (!may_be_same_host(to)) return to->loop && to->qpn != ROCE_GSI_QPN;
    return c->peers && c->peers->in_memory(c->peers_ctx, to->gid, to->qpn);
}

uint8_t *sn_tx_begin_for(struct sn_qp *qp, const struct sn_route *to)
{
    const struct sn_nic_config *c = &qp->nic->cfg;

    /* One whose peer takes nothing waits by itself: in the ring its frames would hold up all others'. */
    qp->parked =
        c->peers && may_be_same_host(to) && !c->peers->room(c->peers_ctx, to->gid, to->qpn, qp->nic->now);
    return qp->parked ? NULL : sn_tx_begin_to(qp->nic, to);
}

uint8_t *sn_tx_begin(struct sn_qp *qp)
{
    return sn_tx_begin_for(qp, &qp->peer);
}

/* Most packets of a connection are of one length. */
static uint32_t packet_icrc_of(struct sn_route *to, uint8_t *frame, uint32_t len)
{
    if (to->icrc_len != len) {
        to->icrc_start = roce_icrc_start(&to->path, len);
        to->icrc_len = len;
    }
    return roce_icrc_from(to->icrc_start, frame, len);
}

/* The payload stands after the headers' place already. */
void sn_tx_end_to(struct sn_nic *nic, struct sn_route *to, uint8_t *frame, struct roce_hdr *h,
                  uint32_t payload_len)
{
    struct sn_ring *ring = to->loop ? &nic->loop : &nic->tx;
    struct sn_frame *f = &ring->frames[ring->tail % SN_TX_FRAMES];
    uint32_t at;

    GW_ASSERT_HELD(&nic->lock);
    h->migreq = true;
    h->pkey = to->pkey;
    h->dqpn = to->qpn;
    h->pad = roce_pad(payload_len);
    at = roce_pack(frame, h) + payload_len;
    memset(frame + at, 0, h->pad);
    at += h->pad;
    /* Nothing can happen to a frame that stays in memory; else it is covered up to here. */
    f->no_icrc = stays_in_memory(nic, to);
    f->rndv = false;
    if (!f->no_icrc) roce_icrc_end(packet_icrc_of(to, frame, at + ROCE_ICRC_LEN), frame + at);
    memcpy(f->src_gid, nic->cfg.gid, 16);
    memcpy(f->dst_gid, to->gid, 16);
    f->sport = nic->cfg.sport;
    f->ip_id = 0;
    f->has_ip_id = true;
    f->ecn = nic->cfg.ecn ? ROCE_ECT : 0;
    f->len = at + ROCE_ICRC_LEN;
    f->data = frame;
    if (to->gone || to->stray) return;
    ring->tail++;
    sn_count(&nic->count.tx_packets, 1);
    sn_count(&nic->count.tx_bytes, f->len);
}

void sn_tx_count(struct sn_qp *qp, const struct roce_hdr *h, uint32_t payload_len)
{
    qp->count.tx_packets++;
    qp->count.tx_bytes += roce_ops[h->opcode].hdr_len + payload_len + h->pad + ROCE_ICRC_LEN;
}

void sn_tx_end(struct sn_qp *qp, uint8_t *frame, struct roce_hdr *h, uint32_t payload_len)
{
    GW_TRACE(softnic, tx, qp->number, h->psn, h->opcode, payload_len);
    sn_tx_end_to(qp->nic, &qp->peer, frame, h, payload_len);
    sn_rate_sent(qp, roce_ops[h->opcode].hdr_len + payload_len + ROCE_ICRC_LEN);
    sn_tx_count(qp, h, payload_len);
}

void sn_tx_mark_rndv(struct sn_qp *qp)
{
    struct sn_ring *ring = qp->peer.loop ? &qp->nic->loop : &qp->nic->tx;

    if (qp->peer.gone || qp->peer.stray) return; /* there is none */
    ring->frames[(ring->tail - 1) % SN_TX_FRAMES].rndv = true;
}

uint32_t sn_tx_position(const struct sn_nic *nic, bool looped)
{
    return looped ? nic->loop.tail : nic->tx.tail;
}

/* Frames that wait to leave, from the oldest on, in a row: those that the wire sends as one message must
 * stand together. */
static const struct sn_frame *in_a_row(const struct sn_ring *ring, uint32_t n, struct sn_frame *room)
{
    uint32_t at = ring->head % SN_TX_FRAMES, first = SN_TX_FRAMES - at;

    if (n <= first) return &ring->frames[at];
    memcpy(room, &ring->frames[at], first * sizeof(*room));
    memcpy(room + first, ring->frames, (n - first) * sizeof(*room));
    return room;
}

void sn_tx_push(struct sn_nic *nic)
{
    struct sn_ring *ring = &nic->tx;
    struct sn_frame room[SN_TX_FRAMES];
    uint32_t n = ring->tail - ring->head;
    int taken;

    GW_ASSERT_HELD(&nic->lock);
    nic->tx_blocked = nic->tx_urgent = false;
    if (!n) return;
    taken = nic->cfg.wire->send(nic->cfg.wire_ctx, in_a_row(ring, n, room), (int)n);
    if (taken > 0) ring->head += (uint32_t)taken < n ? (uint32_t)taken : n;
    nic->tx_blocked = taken < (int)n;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

static bool takes(enum ibv_qp_state state, uint8_t opcode)
{
    if (state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE) return true;
    return state == IBV_QPS_RTR && (roce_flags(opcode) & ROCE_F_REQUEST || opcode == ROCE_CNP);
}

/* Between the QP's two addresses and, on one host, from the peer's slot. Datagrams may come from
 * anywhere, but the queue pair that they say they are from is of their sender's slot. */
static bool address_ok(const struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h)
{
    bool ud = qp->init.type == IBV_QPT_UD;
    int slot = sn_frame_slot(f);

    if (slot != SN_NO_SLOT && slot != (int)((ud ? h->sqpn : qp->peer.qpn) >> 16)) return false;
    if (!ud && memcmp(f->src_gid, qp->peer.gid, 16)) return false;
    return memcmp(f->dst_gid, qp->nic->cfg.gid, 16) == 0;
}

/* XRC queue pairs are one side of a connection only. */
static bool has_side(const struct sn_qp *qp, uint32_t flags)
{
    if (qp->init.type == IBV_QPT_XRC_SEND) return flags & ROCE_F_RESPONSE;
    return qp->init.type != IBV_QPT_XRC_RECV || flags & ROCE_F_REQUEST;
}

/* Congestion notifications are of no service: they concern a connection, whichever it is. */
static bool has_opcode(const struct sn_qp *qp, uint8_t opcode)
{
    if (opcode == ROCE_CNP) return sn_qp_reliable(qp);
    return roce_service(opcode) == qp->service && has_side(qp, roce_flags(opcode));
}

/* The queue pair that the packet is for. NULL: it is dropped, and counted with those that failed in the same
 * way. */
static struct sn_qp *admit(struct sn_nic *nic, const struct sn_frame *f, const struct roce_hdr *h,
                           bool inside)
{
    struct sn_counters *c = &nic->count;
    struct sn_qp *qp = sn_qp_find(nic, h->dqpn);
    uint64_t *drop = NULL;

    if (!qp)
        drop = &c->drop_no_qp;
    else if (!has_opcode(qp, h->opcode))
        drop = &c->drop_opcode;
    else if ((h->pkey ^ nic->cfg.pkey[qp->attr.pkey_index]) & SN_PKEY_BASE)
        drop = &c->drop_pkey;
    else if (!takes(qp->state, h->opcode))
        drop = &c->drop_state;
    else if (!address_ok(qp, f, h))
        drop = &c->drop_address;
    else if (!inside && !f->no_icrc && !f->icrc_checked && !sn_frame_icrc_ok(f))
        drop = &c->drop_icrc;
    else if (!inside && !sn_owner_sent(qp, f))
        drop = &c->drop_address;
    if (!drop) return qp;
    GW_TRACE(softnic, dropped, h->dqpn, h->psn, h->opcode);
    sn_count(drop, 1);
    return NULL;
}

static void established(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    if (qp->state != IBV_QPS_RTR || qp->resp.established) return;
    qp->resp.established = true;
    sn_publish_queue(qp);
    if (nic->cfg.async_event) nic->cfg.async_event(nic->cfg.user, IBV_EVENT_COMM_EST, qp->init.user);
}

/* A request whose payload is an offer, has gone ahead, or is just bytes. */
static void receive_request(struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h,
                            const uint8_t *payload, uint32_t len)
{
    struct sn_body body = {.bytes = payload, .length = len};
    struct sn_rndv rndv;

    if (sn_eager_is(qp, f, h, len)) {
        sn_eager_parse(payload, h, &body);
    } else if (f->rndv) {
        body.rndv = &rndv;
        if (!sn_rndv_parse(&rndv, payload, len)) {
            sn_count(&qp->nic->count.drop_malformed, 1);
            return;
        }
        body.length = rndv.length;
    }
    sn_request_rx(qp, h, &body);
}

/* Nothing but SENDs and WRITEs of reliable queue pairs is offered. */
static bool may_be_offer(const struct sn_qp *qp, uint8_t opcode)
{
    return sn_qp_reliable(qp) && (roce_flags(opcode) & (ROCE_F_SEND | ROCE_F_WRITE));
}

static void receive_frame(struct sn_nic *nic, const struct sn_frame *f, bool inside)
{
    struct roce_hdr h;
    struct sn_qp *qp;
    uint32_t len;
    int at;

    GW_ASSERT_HELD(&nic->lock);
    sn_count(&nic->count.rx_packets, 1);
    sn_count(&nic->count.rx_bytes, f->len);
    sn_activity(nic);
    nic->budget -= nic->budget != 0;
    at = roce_parse(f->data, f->len, &h, &len);
    if (at < 0) {
        sn_count(at == -ROCE_BAD_OPCODE ? &nic->count.drop_opcode : &nic->count.drop_malformed, 1);
        return;
    }
    if (h.dqpn == ROCE_GSI_QPN) {
        sn_mad_rx(nic, f, &h, f->data + at, len);
        return;
    }
    qp = admit(nic, f, &h, inside);
    if (!qp) return;
    if (f->rndv && !may_be_offer(qp, h.opcode)) {
        sn_count(&nic->count.drop_opcode, 1);
        return;
    }
    GW_TRACE(softnic, rx, qp->number, h.psn, h.opcode, len);
    qp->count.rx_packets++;
    qp->count.rx_bytes += f->len;
    if (f->ecn == ROCE_CE) sn_count(&nic->count.ecn_marked, 1);
    if (h.opcode == ROCE_CNP) {
        if (nic->cfg.ecn) sn_rate_cut(qp);
        return;
    }
    if (f->ecn == ROCE_CE && nic->cfg.ecn && sn_qp_reliable(qp)) sn_rate_marked(qp);
    if (qp->init.type == IBV_QPT_UD) {
        sn_ud_rx(qp, f, &h, f->data + at, len);
        return;
    }
    established(qp);
    if (roce_flags(h.opcode) & ROCE_F_REQUEST)
        receive_request(qp, f, &h, f->data + at, len);
    else
        sn_answer_rx(qp, &h, f->data + at, len);
}

/* Only packets looped before this began: answers to them are for the next round. */
bool sn_rx_looped(struct sn_nic *nic)
{
    struct sn_ring *ring = &nic->loop;
    uint32_t n = ring->tail - ring->head;

    for (uint32_t i = 0; i < n; i++, ring->head++)
        receive_frame(nic, &ring->frames[ring->head % SN_TX_FRAMES], true);
    return n != 0;
}

/* A wire that had nothing more is not asked again in the same progress call: to ask may be a system call. */
bool sn_rx(struct sn_nic *nic)
{
    struct sn_frame frames[SN_RX_BATCH];
    bool looped = sn_rx_looped(nic), more = false;
    int n;

    if (nic->wire_dry) return looped;
    n = nic->cfg.wire->recv(nic->cfg.wire_ctx, frames, SN_RX_BATCH, &more);
    for (int i = 0; i < n; i++) receive_frame(nic, &frames[i], false);
    nic->wire_dry = !more;
    return looped || n > 0 || more;
}
