/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beside the queue pairs of the model there are guests. Either two connections, whose receiver takes from one
 * shared receive queue and lends its peers memory windows. Or one XRC connection to two shared receive
 * queues. Messages of a connection to one queue arrive whole, once and in order. An entry of a queue is used
 * once. A limit event comes when it must, and not before. A peer's write through a window is there when its
 * message says so, and nothing comes through once the window is taken back. They have memory and completion
 * queues of their own.
 */
#include <string.h>

#include "tests/sim/guests.h"
#include "tests/softnic/pattern.h"

static uint32_t draw(struct sim *s, uint32_t n)
{
    return rnd_below(&s->rig.rnd, n);
}

/* ---- the guests send ----------------------------------------------------------------------------------- */

static void ring(struct sim *s, struct rig_qp *q, uint32_t bbs)
{
    q->last_wqe = q->sq_pi;
    q->sq_pi = (uint16_t)(q->sq_pi + bbs);
    rig_record(q);
    rig_ring(q, draw(s, 3), bbs);
    rig_kick(q->node, 20000);
}

static void post(struct sim *s, struct sim_guest *g, struct gw_mlx5_wr *wr, struct sim_srq *q, uint32_t len)
{
    uint32_t slot = g->posted % GUEST_SENDS;
    struct gw_mlx5_sge sge = {(uintptr_t)guests_ram.out[g->index] + slot * GUEST_SLOT, len, sn_mr_key(g->mr)};
    int bbs;

    if (len) pattern_fill(guests_ram.out[g->index] + slot * GUEST_SLOT, g->index << 24 | g->posted, len);
    wr->sge = &sge;
    wr->num_sge = len != 0;
    bbs = guests_xrc(&s->host) ? gw_mlx5_put_xrc(&g->from.sq, g->from.sq_pi, wr, sn_srq_number(q->srq))
                               : gw_mlx5_put_wr(&g->from.sq, g->from.sq_pi, wr);
    if (bbs < 1) rig_fail(&s->rig, "a guest's request could not be built: %d", bbs);
    ring(s, &g->from, (uint32_t)bbs);
    g->posted++;
}

/* One that takes a receive. ends: it says that the window was written to. */
static void send_message(struct sim *s, struct sim_guest *g, bool ends)
{
    static const uint8_t kinds[] = {GW_MLX5_SEND, GW_MLX5_SEND_IMM, GW_MLX5_WRITE_IMM};
    struct sim_srq *q = &s->host.srq[draw(s, s->host.srqs)];
    struct sim_message *m = &g->message[q->index][g->sent[q->index]++];
    struct gw_mlx5_wr wr = {.opcode = ends ? GW_MLX5_SEND : kinds[draw(s, 3)],
                            .flags = draw(s, 3) ? 0 : GW_MLX5_SOLICITED,
                            .imm_be = (uint32_t)rnd64(&s->rig.rnd)};

    if (ends && g->window.type2 && draw(s, 2)) {
        wr.opcode = GW_MLX5_SEND_INVAL;
        wr.imm_be = gw_be32(g->window.key);
    }
    *m = (struct sim_message){.number = g->index << 24 | g->posted, .opcode = wr.opcode, .ends = ends};
    m->imm_be = wr.imm_be;
    m->len = wr.opcode == GW_MLX5_WRITE_IMM
                 ? 0
                 : PATTERN_MIN + draw(s, draw(s, 2) ? 60 : GUEST_SLOT - PATTERN_MIN);
    q->addressed++;
    post(s, g, &wr, q, m->len);
}

static void write_window(struct sim *s, struct sim_guest *g)
{
    struct sim_window *w = &g->window;
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .raddr = w->start + w->off, .rkey = w->key};

    w->number = g->index << 24 | g->posted;
    w->state = SIM_WINDOW_WRITTEN;
    post(s, g, &wr, &s->host.srq[0], w->len);
}

static void guest_turn(struct sim *s, struct sim_guest *g)
{
    uint8_t inside[64];
    struct gw_mlx5_wc wc;

    while (rig_poll(&g->cq, &wc, inside)) {
        if (wc.opcode != GW_MLX5_CQE_REQ)
            rig_fail(&s->rig, "guest %u: completion with opcode %u, syndrome %02x", g->index, wc.opcode,
                     wc.syndrome);
        g->completed++;
    }
    if (g->posted - g->completed + 2 > GUEST_SENDS || draw(s, 2)) return;
    if (g->window.state == SIM_WINDOW_OPEN && g->posted < g->goal) {
        write_window(s, g);
        send_message(s, g, true);
    } else if (g->posted < g->goal) {
        send_message(s, g, false);
    }
}

/* ---- windows ------------------------------------------------------------------------------------------- */

/* Binds it, to any part of its memory; or takes it back. */
static void post_bind(struct sim *s, struct sim_guest *g, bool open)
{
    struct sim_window *w = &g->window;
    struct gw_mlx5_bind b = {.mkey = w->key ? w->key : sn_mr_key(w->mw),
                             .tag = (uint8_t)rnd64(&s->rig.rnd),
                             .type2 = w->type2,
                             .access =
                                 GW_MLX5_MKEY_REMOTE_WRITE | (draw(s, 2) ? GW_MLX5_MKEY_REMOTE_READ : 0)};

    if (!open && w->type2) b.tag = (uint8_t)b.mkey;
    if (open) {
        w->off = draw(s, GUEST_WINDOW - 64);
        w->len = PATTERN_MIN + draw(s, GUEST_WINDOW - w->off - PATTERN_MIN + 1);
        b.length = GUEST_WINDOW;
        b.lkey = sn_mr_key(w->mr);
        b.addr = (uintptr_t)guests_ram.lent[g->index];
        b.start = w->start = draw(s, 2) ? b.addr : rnd64(&s->rig.rnd) >> 8;
    }
    w->key = (b.mkey & ~0xffu) | b.tag;
    w->state = open ? SIM_WINDOW_BINDING : SIM_WINDOW_CLOSING;
    ring(s, &g->to, gw_mlx5_put_bind(&g->to.sq, g->to.sq_pi, &b, GW_MLX5_SIGNALED));
}

static void host_binds(struct sim *s, struct sim_guest *g)
{
    struct sim_window *w = &g->window;
    uint8_t inside[64];
    struct gw_mlx5_wc wc;

    while (rig_poll(&w->cq, &wc, inside)) {
        if (wc.opcode != GW_MLX5_CQE_REQ || wc.wqe_opcode != GW_MLX5_UMR)
            rig_fail(&s->rig, "guest %u: its window: opcode %u, syndrome %02x", g->index, wc.opcode,
                     wc.syndrome);
        w->state = w->state == SIM_WINDOW_BINDING ? SIM_WINDOW_OPEN : SIM_WINDOW_FREE;
    }
    if (w->state == SIM_WINDOW_FREE && g->posted < g->goal && draw(s, 2)) post_bind(s, g, true);
    if (w->state == SIM_WINDOW_USED && draw(s, 2))
        post_bind(s, g, !w->type2 && g->posted < g->goal && draw(s, 2));
}

static bool untouched(const struct sim_guest *g, uint32_t from, uint32_t to)
{
    while (from < to && guests_ram.lent[g->index][from] == 0x5a) from++;
    return from == to;
}

/* The message that ends its use has come: what was written is there, and nothing else. */
static void window_written(struct sim *s, struct sim_guest *g, const struct sim_message *m)
{
    struct sim_window *w = &g->window;
    uint8_t *at = guests_ram.lent[g->index] + w->off;
    uint32_t number;

    if (!pattern_ok(at, w->len, &number) || number != w->number)
        rig_fail(&s->rig, "guest %u: what it wrote through its window is not there", g->index);
    memset(at, 0x5a, w->len);
    if (!untouched(g, 0, GUEST_WINDOW)) rig_fail(&s->rig, "guest %u: a byte beside what it wrote", g->index);
    w->state = m->opcode == GW_MLX5_SEND_INVAL ? SIM_WINDOW_FREE : SIM_WINDOW_USED;
    s->windows_done++;
}

/* ---- the host receives --------------------------------------------------------------------------------- */

static void post_recv(struct sim *s, struct sim_srq *q)
{
    struct gw_mlx5_rq rq = {guests_ram.srq[q->index], SIM_SRQ_WQES, GUEST_STRIDE};
    struct gw_mlx5_sge sge = {(uintptr_t)guests_ram.in[q->index] + q->head * GUEST_SLOT, GUEST_SLOT,
                              sn_mr_key(q->mr)};
    uint32_t next;

    if (gw_mlx5_put_srq_recv(&rq, q->head, &sge, 1, 1)) rig_fail(&s->rig, "a receive could not be built");
    memcpy(&next, guests_ram.srq[q->index] + q->head * GUEST_STRIDE, 4);
    q->is_posted[q->head] = true;
    q->head = gw_be32(next) & 0xffff;
    q->posted++;
    __atomic_store_n(&q->record[GW_MLX5_DBREC_SRQ], gw_be32(q->posted & 0xffff), __ATOMIC_RELEASE);
}

static bool take_back(struct sim_srq *q, uint32_t entry)
{
    if (entry >= SIM_SRQ_WQES || !q->is_posted[entry]) return false;
    q->is_posted[entry] = false;
    q->back[q->backs++] = entry;
    return true;
}

/* In any order: the links say which. */
static void link_one(struct sim *s, struct sim_srq *q)
{
    uint32_t i = draw(s, q->backs), entry = q->back[i];

    q->back[i] = q->back[--q->backs];
    gw_store16(guests_ram.srq[q->index] + q->tail * GUEST_STRIDE, gw_mlx5_srq_next(entry));
    q->tail = entry;
}

static uint8_t completion_of(uint8_t opcode)
{
    switch (opcode) {
    case GW_MLX5_SEND: return GW_MLX5_CQE_RESP_SEND;
    case GW_MLX5_SEND_IMM: return GW_MLX5_CQE_RESP_SEND_IMM;
    case GW_MLX5_SEND_INVAL: return GW_MLX5_CQE_RESP_SEND_INV;
    default: return GW_MLX5_CQE_RESP_WR_IMM;
    }
}

static void check_message(struct sim *s, struct sim_srq *q, struct sim_guest *g, const struct gw_mlx5_wc *wc)
{
    const uint8_t *slot = guests_ram.in[q->index] + wc->wqe_counter % SIM_SRQ_WQES * GUEST_SLOT;
    const struct sim_message *m = &g->message[q->index][g->received[q->index]];
    uint32_t number = m->number;

    if (g->received[q->index]++ >= g->sent[q->index]) {
        rig_fail(&s->rig, "guest %u: one message more than it sent", g->index);
        return;
    }
    if (!take_back(q, wc->wqe_counter))
        rig_fail(&s->rig, "shared queue %u: entry %u is not posted", q->index, wc->wqe_counter);
    if (wc->opcode != completion_of(m->opcode) || wc->byte_cnt != m->len ||
        (m->opcode != GW_MLX5_SEND && wc->imm_be != m->imm_be))
        rig_fail(&s->rig, "guest %u: opcode %u, %u bytes, immediate %08x; sent was %02x, %u, %08x", g->index,
                 wc->opcode, wc->byte_cnt, wc->imm_be, m->opcode, m->len, m->imm_be);
    else if (m->len && (!pattern_ok(slot, m->len, &number) || number != m->number))
        rig_fail(&s->rig, "guest %u: a message is garbled, or another", g->index);
    else if (m->ends)
        window_written(s, g, m);
    s->guests_done++;
}

static bool poll(struct sim *s, struct sim_srq *q)
{
    struct sim_host *h = &s->host;
    struct sim_guest *g = h->guest;
    uint8_t inside[64];
    struct gw_mlx5_wc wc;

    if (!rig_poll(&q->cq, &wc, inside)) return false;
    while (g < h->guest + h->guests && g->to.qpn != wc.qpn) g++;
    if (g == h->guest + h->guests || wc.uidx != (guests_xrc(h) ? GUEST_UIDX + q->index : g->to.uidx) ||
        gw_mlx5_wc_is_error(&wc) || wc.opcode == GW_MLX5_CQE_REQ)
        rig_fail(&s->rig, "shared queue %u: completion of QP 0x%x, user index 0x%x, opcode %u, syndrome %02x",
                 q->index, wc.qpn, wc.uidx, wc.opcode, wc.syndrome);
    else
        check_message(s, q, g, &wc);
    return true;
}

/* Fewer than `limit` entries are left: true at the latest now, if the engine took all that was rung for. */
void guests_on_limit(void *arg, void *user)
{
    struct sim *s = arg;
    struct sim_srq *q = user;

    if (!q->limit)
        rig_fail(&s->rig, "shared queue %u: a limit event that was not asked for", q->index);
    else if (q->posted >= q->addressed + q->limit)
        rig_fail(&s->rig, "shared queue %u: %u entries are left at least, and its limit is %u", q->index,
                 q->posted - q->addressed, q->limit);
    q->limit = 0;
    s->limits_seen++;
}

/* At least these are taken; so if fewer than the limit can be left, the event has come. */
static void check_limit(struct sim *s, const struct sim_srq *q)
{
    uint32_t received = 0;

    for (uint32_t i = 0; i < s->host.guests; i++) received += s->host.guest[i].received[q->index];
    if (q->limit && q->posted - received < q->limit)
        rig_fail(&s->rig, "shared queue %u: %u entries are left at most, below its limit of %u, and no event",
                 q->index, q->posted - received, q->limit);
}

static void host_turn(struct sim *s, struct sim_srq *q)
{
    for (uint32_t n = 1 + draw(s, 4); n && poll(s, q); n--) check_limit(s, q);
    if (s->draining) return;
    for (uint32_t n = draw(s, 4); n; n--) {
        if (q->backs && draw(s, 2)) link_one(s, q);
        if (q->head != q->tail) post_recv(s, q);
    }
    if (!q->limit && draw(s, 4) == 0) {
        q->limit = 1 + draw(s, SIM_SRQ_WQES - 1);
        if (sn_srq_set_limit(q->srq, q->limit)) rig_fail(&s->rig, "a limit of %u was refused", q->limit);
    }
}

/* ---- together ------------------------------------------------------------------------------------------ */

void sim_guests_turn(struct sim *s)
{
    struct sim_host *h = &s->host;
    uint32_t before = s->guests_done;

    for (uint32_t i = 0; i < h->guests; i++) {
        before -= h->guest[i].posted;
        guest_turn(s, &h->guest[i]);
        if (!guests_xrc(h)) host_binds(s, &h->guest[i]);
        before += h->guest[i].posted;
    }
    for (uint32_t i = 0; i < h->srqs; i++) host_turn(s, &h->srq[i]);
    h->next = sim_next_turn(s, &h->idle, s->guests_done != before);
}

bool sim_guests_done(const struct sim *s)
{
    for (uint32_t i = 0; i < s->host.guests; i++) {
        const struct sim_guest *g = &s->host.guest[i];

        if (g->posted < g->goal || g->completed < g->posted) return false;
        for (uint32_t k = 0; k < s->host.srqs; k++)
            if (g->received[k] < g->sent[k]) return false;
    }
    return true;
}

void sim_guests_check_end(struct sim *s)
{
    struct sim_host *h = &s->host;

    for (uint32_t i = 0; i < h->srqs; i++) check_limit(s, &h->srq[i]);
    for (uint32_t i = 0; i < h->guests && !guests_xrc(h); i++)
        if (!untouched(&h->guest[i], 0, GUEST_WINDOW))
            rig_fail(&s->rig, "guest %u: its window's memory was written to after its use", i);
}
