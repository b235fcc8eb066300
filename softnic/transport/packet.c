/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets, out and in: frames are built in place in a ring, from which the wire takes them; those for a queue
 * pair of the same NIC go through a ring of their own and never see the wire. What comes in is checked before
 * anything is believed.
 */
#include <string.h>

#include "softnic/engine/engine.h"

enum { PKEY_BASE = 0x7fff };

/* ---- out ----------------------------------------------------------------------------------------------- */

static bool full(const struct sn_ring *ring)
{
    return ring->tail - ring->head == SN_TX_FRAMES;
}

uint8_t *sn_tx_begin(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    struct sn_ring *ring = qp->loop ? &nic->loop : &nic->tx;

    if (full(ring) && !qp->loop && !nic->tx_blocked) sn_tx_push(nic);
    return full(ring) ? NULL : ring->data[ring->tail % SN_TX_FRAMES];
}

static bool stays_in_memory(const struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;

    return qp->loop || (c->peers && c->peers->in_memory(c->peers_ctx, qp->dgid, qp->attr.dest_qp_num));
}

/* The payload stands behind the headers' place already. */
void sn_tx_end(struct sn_qp *qp, uint8_t *frame, struct roce_hdr *h, uint32_t payload_len)
{
    struct sn_nic *nic = qp->nic;
    struct sn_ring *ring = qp->loop ? &nic->loop : &nic->tx;
    struct sn_frame *f = &ring->frames[ring->tail % SN_TX_FRAMES];
    uint32_t at;

    h->migreq = true;
    h->pkey = ROCE_DEFAULT_PKEY;
    h->dqpn = qp->attr.dest_qp_num;
    h->pad = roce_pad(payload_len);
    at = roce_pack(frame, h) + payload_len;
    memset(frame + at, 0, h->pad);
    at += h->pad;
    /* Nothing can happen to a frame that stays in memory; else it is covered up to here. */
    f->no_icrc = stays_in_memory(qp);
    if (!f->no_icrc) roce_icrc_end(roce_icrc(&qp->path, frame, at + ROCE_ICRC_LEN), frame + at);
    memcpy(f->src_gid, nic->cfg.gid, 16);
    memcpy(f->dst_gid, qp->dgid, 16);
    f->sport = nic->cfg.sport;
    f->ip_id = 0;
    f->has_ip_id = true;
    f->ecn = 0;
    f->len = at + ROCE_ICRC_LEN;
    f->data = frame;
    ring->tail++;
    sn_count(&nic->count.tx_packets, 1);
    sn_count(&nic->count.tx_bytes, f->len);
}

void sn_tx_push(struct sn_nic *nic)
{
    struct sn_ring *ring = &nic->tx;

    nic->tx_blocked = false;
    while (ring->head != ring->tail) {
        uint32_t at = ring->head % SN_TX_FRAMES, n = ring->tail - ring->head;
        int taken;

        if (n > SN_TX_FRAMES - at) n = SN_TX_FRAMES - at;
        taken = nic->cfg.wire->send(nic->cfg.wire_ctx, &ring->frames[at], (int)n);
        if (taken > 0) ring->head += (uint32_t)taken < n ? (uint32_t)taken : n;
        if (taken < (int)n) {
            nic->tx_blocked = true;
            return;
        }
    }
}

/* ---- in ------------------------------------------------------------------------------------------------ */

static bool is_ipv4(const uint8_t gid[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, prefix, 12) == 0;
}

static bool icrc_ok(const struct sn_frame *f)
{
    bool v4 = is_ipv4(f->src_gid) && is_ipv4(f->dst_gid);
    struct roce_path path = {.ipv6 = !v4, .sport = f->sport, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint16_t id;

    memcpy(path.src, f->src_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
    memcpy(path.dst, f->dst_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
    if (f->has_ip_id) path.ip_id = f->ip_id;
    if (roce_icrc_ok(&path, f->data, f->len)) return true;
    return v4 && !f->has_ip_id && roce_icrc_match_ipv4_any_id(&path, f->data, f->len, &id);
}

static bool takes(enum ibv_qp_state state, uint32_t flags)
{
    if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) return true;
    return state == IBV_QPS_RTR && (flags & ROCE_F_REQUEST);
}

/* Who the packet is for, or NULL: it is dropped, and counted with those that failed in the same way. */
static struct sn_qp *admit(struct sn_nic *nic, const struct sn_frame *f, const struct roce_hdr *h,
                           bool inside)
{
    struct sn_counters *c = &nic->count;
    struct sn_qp *qp = sn_qp_find(nic, h->dqpn);
    uint64_t *drop = NULL;

    if (!qp)
        drop = &c->drop_no_qp;
    else if ((h->opcode & ROCE_SERVICE_MASK) != ROCE_RC)
        drop = &c->drop_opcode;
    else if ((h->pkey & PKEY_BASE) != PKEY_BASE)
        drop = &c->drop_pkey;
    else if (!takes(qp->state, roce_flags(h->opcode)))
        drop = &c->drop_state;
    else if (memcmp(f->src_gid, qp->dgid, 16) || memcmp(f->dst_gid, nic->cfg.gid, 16))
        drop = &c->drop_address;
    else if (!inside && !f->no_icrc && !icrc_ok(f))
        drop = &c->drop_icrc;
    if (!drop) return qp;
    sn_count(drop, 1);
    return NULL;
}

static void established(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    if (qp->state != IBV_QPS_RTR || qp->resp.established) return;
    qp->resp.established = true;
    sn_direct_tell_queue(qp);
    if (nic->cfg.async_event) nic->cfg.async_event(nic->cfg.user, IBV_EVENT_COMM_EST, qp->init.user);
}

static void receive_frame(struct sn_nic *nic, const struct sn_frame *f, bool inside)
{
    struct roce_hdr h;
    struct sn_qp *qp;
    uint32_t len;
    int at;

    sn_count(&nic->count.rx_packets, 1);
    sn_count(&nic->count.rx_bytes, f->len);
    sn_activity(nic);
    nic->budget -= nic->budget != 0;
    at = roce_parse(f->data, f->len, &h, &len);
    if (at < 0) {
        sn_count(at == -ROCE_BAD_OPCODE ? &nic->count.drop_opcode : &nic->count.drop_malformed, 1);
        return;
    }
    qp = admit(nic, f, &h, inside);
    if (!qp) return;
    if (f->ecn == 3) sn_count(&nic->count.ecn_marked, 1);
    established(qp);
    if (roce_flags(h.opcode) & ROCE_F_REQUEST)
        sn_request_rx(qp, &h, f->data + at, len);
    else
        sn_answer_rx(qp, &h, f->data + at, len);
}

/* What was looped when this began: answers to it are for the next round. */
static bool receive_looped(struct sn_nic *nic)
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
    bool looped = receive_looped(nic), more = false;
    int n;

    if (nic->wire_dry) return looped;
    n = nic->cfg.wire->recv(nic->cfg.wire_ctx, frames, SN_RX_BATCH, &more);
    for (int i = 0; i < n; i++) receive_frame(nic, &frames[i], false);
    nic->wire_dry = !more;
    return looped || n > 0 || more;
}
