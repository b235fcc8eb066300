/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UC and UD queue pairs beside those whose memory the model knows to the byte. Their messages may get lost,
 * and datagrams come late or twice. But each that comes is a message that the peer sent, whole. A sender
 * never learns of anything. They have memory and completion queues of their own.
 */
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/softnic/pattern.h"

enum {
    GRH = 40,
    SLOT = 3072,
    SENDS = 3,
    RECVS = 4,
    CQES = 32,
    SQ_BBS = 16,
    RQ_WQES = 8,
    MEM = (SENDS + RECVS) * SLOT
};

static uint8_t mem[SIM_LOOSE][MEM];
static uint8_t sq_mem[SIM_LOOSE][SQ_BBS * 64] __attribute__((aligned(64)));
static uint8_t rq_mem[SIM_LOOSE][RQ_WQES * 16] __attribute__((aligned(64)));
static uint8_t cq_mem[SIM_LOOSE][CQES * 128] __attribute__((aligned(128)));

static uint32_t draw(struct sim *s, uint32_t n)
{
    return rnd_below(&s->rig.rnd, n);
}

static struct gw_mlx5_sge sge_at(struct loose *l, uint32_t slot, uint32_t len)
{
    return (struct gw_mlx5_sge){(uintptr_t)mem[l->index] + slot * SLOT, len, sn_mr_key(l->mr)};
}

/* ---- making -------------------------------------------------------------------------------------------- */

static bool make(struct sim *s, struct loose *l, uint32_t index, enum ibv_qp_type type)
{
    struct rig_node *node = &s->rig.node[draw(s, s->rig.nodes)];
    struct rig_cq_params cp = {.count = CQES, .size = draw(s, 2) ? 64 : 128, .uar = draw(s, RIG_UARS)};
    struct rig_qp_params qp = {.type = type,
                               .sq_wqebbs = SQ_BBS,
                               .rq_wqes = RQ_WQES,
                               .rq_stride = 16,
                               .uar = draw(s, RIG_UARS - 1),
                               .bfreg = draw(s, 4),
                               .uidx = index,
                               .sq_sig_all = true,
                               .scatter_recv = draw(s, 2) ? 32 : 0};
    struct sn_mr_init mr = {.addr = (uintptr_t)mem[index], .length = MEM, .access = IBV_ACCESS_LOCAL_WRITE};

    memset(l, 0, sizeof(*l));
    l->index = index;
    l->type = type;
    l->next = draw(s, 20000);
    l->goal = draw(s, 60);
    mr.iova = mr.addr;
    return !sn_mr_create(node->pd, &mr, &l->mr) && rig_cq_open(&l->cq, node, &cp, cq_mem[index]) &&
           rig_qp_open(&l->q, node, &l->cq, &l->cq, &qp, sq_mem[index], rq_mem[index]);
}

bool sim_loose_build(struct sim *s)
{
    enum ibv_qp_type type = draw(s, 2) ? IBV_QPT_UC : IBV_QPT_UD;
    struct rig_link link = {
        .mtu = (enum ibv_mtu)(1 + draw(s, 5)), .sq_psn = 0xfffff0, .rq_psn = 0xffffff - draw(s, 99)};

    s->loose_done = s->loose_lost = 0;
    s->looses = draw(s, 3) ? SIM_LOOSE : 0;
    for (uint32_t i = 0; i < s->looses; i++)
        if (!make(s, &s->loose[i], i, type)) return false;
    for (uint32_t i = 0; i < s->looses; i++) {
        struct loose *peer = &s->loose[i ^ 1];

        if (rig_qp_up(&s->loose[i].q, peer->q.node->index, peer->q.qpn, &link)) continue;
        rig_fail(&s->rig, "an unreliable queue pair could not be connected");
        return false;
    }
    return true;
}

void sim_loose_tear_down(struct sim *s)
{
    for (uint32_t i = 0; i < s->looses; i++) {
        struct loose *l = &s->loose[i];

        rig_qp_close(&l->q);
        rig_cq_close(&l->cq);
        if (sn_mr_destroy(l->mr)) rig_fail(&s->rig, "a region could not be destroyed");
        s->loose_lost +=
            s->loose[i ^ 1].sent - (l->received < s->loose[i ^ 1].sent ? l->received : s->loose[i ^ 1].sent);
        s->loose_done += l->received;
    }
}

/* ---- working ------------------------------------------------------------------------------------------- */

static void post_send(struct sim *s, struct loose *l)
{
    struct loose *peer = &s->loose[l->index ^ 1];
    uint32_t slot = l->sent % SENDS, longest = l->type == IBV_QPT_UD ? SLOT - GRH : SLOT;
    uint32_t len = PATTERN_MIN + draw(s, draw(s, 2) ? 60 : longest - PATTERN_MIN + 1);
    struct gw_mlx5_sge sge = sge_at(l, slot, len);
    struct gw_mlx5_wr wr = {
        .opcode = draw(s, 2) ? GW_MLX5_SEND : GW_MLX5_SEND_IMM, .num_sge = 1, .sge = &sge};
    struct gw_mlx5_av av = {.hop_limit = 9};
    int bbs;

    pattern_fill(mem[l->index] + slot * SLOT, l->index << 24 | l->sent, len);
    wr.imm_be = l->sent;
    memcpy(av.rgid, s->rig.net.gid[peer->q.node->index], 16);
    l->q.last_wqe = l->q.sq_pi;
    bbs = l->type == IBV_QPT_UD ? gw_mlx5_put_ud(&l->q.sq, l->q.sq_pi, &wr, &av, peer->q.qpn, RIG_QKEY)
                                : gw_mlx5_put_wr(&l->q.sq, l->q.sq_pi, &wr);
    l->q.sq_pi = (uint16_t)(l->q.sq_pi + bbs);
    l->sent++;
    rig_record(&l->q);
    rig_ring(&l->q, draw(s, 3), (uint32_t)bbs);
    rig_kick(l->q.node, 20000);
}

static void post_recv(struct sim *s, struct loose *l)
{
    struct gw_mlx5_sge sge = sge_at(l, SENDS + l->posted % RECVS, SLOT);

    if (gw_mlx5_put_recv(&l->q.rq, l->q.rq_pi++, &sge, 1, 1))
        rig_fail(&s->rig, "a receive could not be built");
    l->posted++;
    rig_recv_record(&l->q);
}

/* Of an address that no node has: anybody who knows the Q_Key may send a datagram. */
static bool forged(const struct sim *s, const struct loose *l, const uint8_t *grh)
{
    return l->type == IBV_QPT_UD && grh[s->rig.net.params.ipv6 ? 23 : 35] == NET_FORGED;
}

static void check_message(struct sim *s, struct loose *l, const struct gw_mlx5_wc *wc, const uint8_t *inside)
{
    const struct loose *peer = &s->loose[l->index ^ 1];
    const uint8_t *slot = mem[l->index] + (SENDS + l->received % RECVS) * SLOT;
    uint32_t grh = l->type == IBV_QPT_UD ? GRH : 0, number = 0;
    bool is_forged = forged(s, l, slot);

    l->received++;
    if (is_forged) return;
    if (wc->byte_cnt < grh || wc->byte_cnt > SLOT ||
        !pattern_ok(wc->scatter ? inside : slot + grh, wc->byte_cnt - grh, &number))
        rig_fail(&s->rig, "unreliable end %u: message %u is garbled", l->index, l->received - 1);
    else if (number >> 24 != peer->index || (number & 0xffffff) >= peer->sent ||
             (!wc->scatter && wc->src_qp != peer->q.qpn)) /* it lies under data that is in the entry */
        rig_fail(&s->rig, "unreliable end %u: a message that its peer never sent", l->index);
    else if (wc->opcode == GW_MLX5_CQE_RESP_SEND_IMM && wc->imm_be != (number & 0xffffff))
        rig_fail(&s->rig, "unreliable end %u: the immediate of another message", l->index);
}

static bool poll(struct sim *s, struct loose *l)
{
    uint8_t inside[64];
    struct gw_mlx5_wc wc;

    if (!rig_poll(&l->cq, &wc, inside)) return false;
    if (wc.opcode == GW_MLX5_CQE_REQ)
        l->completed++;
    else if (wc.opcode == GW_MLX5_CQE_RESP_SEND || wc.opcode == GW_MLX5_CQE_RESP_SEND_IMM)
        check_message(s, l, &wc, inside);
    else
        rig_fail(&s->rig, "unreliable end %u: completion with opcode %u, syndrome %02x", l->index, wc.opcode,
                 wc.syndrome);
    return true;
}

void sim_loose_turn(struct sim *s, struct loose *l)
{
    uint32_t before = l->sent + l->posted;
    bool did = false;

    while (poll(s, l)) did = true;
    if (l->sent < l->goal && l->sent - l->completed < SENDS && draw(s, 2)) post_send(s, l);
    if (!s->draining && l->posted - l->received < RECVS && draw(s, 2)) post_recv(s, l);
    l->next = sim_next_turn(s, &l->idle, did || l->sent + l->posted != before);
}

bool sim_loose_done(const struct sim *s)
{
    for (uint32_t i = 0; i < s->looses; i++)
        if (s->loose[i].completed < s->loose[i].goal) return false;
    return true;
}
