/* SPDX-License-Identifier: Apache-2.0 */
/* The applications: what they post, when, and what the model expects of it. */
#include <string.h>

#include "tests/sim/sim.h"

enum kind {
    K_SEND,
    K_SEND_IMM,
    K_WRITE,
    K_WRITE_IMM,
    K_READ,
    K_FA,
    K_CS,
    K_MASKED_FA,
    K_MASKED_CS,
    K_NOP,
    KINDS
};

static uint32_t draw(struct sim *s, uint32_t n)
{
    return rnd_below(&s->rig.rnd, n);
}

/* ---- drawing one work request -------------------------------------------------------------------------- */

static uint32_t draw_len(struct sim *s, const struct end *e, uint32_t most)
{
    uint32_t mtu = e->q.mtu, len;

    switch (draw(s, 6)) {
    case 0: len = draw(s, 17); break;
    case 1: len = draw(s, 300); break;
    case 2: len = mtu - 1 + draw(s, 3); break;
    case 3: len = mtu * (1 + draw(s, 4)) - 1 + draw(s, 3); break;
    case 4: len = draw(s, 3 * mtu); break;
    default: len = draw(s, most + 1); break;
    }
    return len < most ? len : most;
}

/* Cuts len bytes into up to `most` slices of the node's memory. */
static bool draw_local(struct sim *s, const struct end *e, struct op *op, uint32_t len, uint32_t most)
{
    uint32_t left = len;

    op->locals = 0;
    while (left) {
        uint32_t part = op->locals + 1 == most || draw(s, 2) ? left : 1 + draw(s, left);
        struct slice *l = &op->local[op->locals];

        if (!sim_alloc(s, e->q.node->index, part, 1, &l->off)) return false;
        l->len = part;
        op->locals++;
        left -= part;
    }
    return true;
}

/* The place of an earlier WRITE, if there is one: it is written again, or read back. */
static bool reuse_remote(struct sim *s, struct end *e, struct op *op, bool write)
{
    struct op *old;

    if (e->last_write < 0 || draw(s, 3)) return false;
    old = &e->ops[e->last_write];
    if (!old->remote.len) return false;
    op->remote = old->remote;
    op->len = old->remote.len;
    old->keep_remote = true;
    if (!write) {
        op->keep_remote = true;
        return true;
    }
    /* A later WRITE may overtake an earlier READ of the same bytes, unless it is fenced. */
    op->fence = true;
    old->superseded = true;
    return true;
}

/* Bytes that an earlier READ fetched are sent on: that takes a fence. */
static bool reuse_local(struct sim *s, struct end *e, struct op *op)
{
    struct op *old;

    if (e->last_read < 0 || draw(s, 3)) return false;
    old = &e->ops[e->last_read];
    if (old->len > e->max_len || !old->len) return false;
    /* Bytes that arrive in a completion are in memory only when that was polled. */
    if (e->scatters && old->len <= 64 && e->last_read >= (int)e->retired) return false;
    memcpy(op->local, old->local, sizeof(op->local));
    op->locals = old->locals;
    op->len = old->len;
    old->keep_local = true;
    op->keep_local = true;
    op->fence = true;
    return true;
}

static bool sends(const struct op *op)
{
    return op->opcode == GW_MLX5_SEND || op->opcode == GW_MLX5_SEND_IMM;
}
static bool writes(const struct op *op)
{
    return op->opcode == GW_MLX5_WRITE || op->opcode == GW_MLX5_WRITE_IMM;
}

/* The room for its segments: the queue is small. */
static uint32_t units_left(const struct end *e, const struct op *op)
{
    return (e->max_bb * 4 < GW_MLX5_MAX_DS ? e->max_bb * 4 : GW_MLX5_MAX_DS) - gw_mlx5_head_units(op->opcode);
}

static bool fresh_remote(struct sim *s, const struct end *peer, struct op *op)
{
    op->remote.len = op->len;
    op->fresh = op->len != 0;
    return !op->len || sim_alloc(s, peer->q.node->index, op->len, 1, &op->remote.off);
}

static bool draw_payload(struct sim *s, struct end *e, struct op *op)
{
    struct end *peer = sim_peer(s, e);
    uint32_t units = units_left(e, op), most = sends(op) ? peer->recv_len : e->max_len;
    uint32_t sges = units < SIM_SGES ? units : SIM_SGES;

    op->inl = op->opcode != GW_MLX5_READ && draw(s, 5) == 0;
    if (!units) {
        op->len = 0;
        return true;
    }
    if (op->inl && most > units * 16 - 4) most = units * 16 - 4;
    op->len = draw_len(s, e, most);
    if (writes(op) && !op->inl && reuse_remote(s, e, op, true)) return draw_local(s, e, op, op->len, sges);
    if (op->opcode == GW_MLX5_READ && reuse_remote(s, e, op, false))
        return draw_local(s, e, op, op->len, sges);
    if (writes(op) && !op->inl && e->last_read >= 0 && e->ops[e->last_read].locals <= sges &&
        reuse_local(s, e, op))
        return fresh_remote(s, peer, op);
    if (!draw_local(s, e, op, op->len, sges)) return false;
    return sends(op) || fresh_remote(s, peer, op);
}

static bool draw_atomic(struct sim *s, struct end *e, struct op *op)
{
    const struct end *peer = sim_peer(s, e);

    if (units_left(e, op) < 1 || e->max_bb * 4 < 4) return false;
    op->word = draw(s, SIM_WORDS);
    op->operand = rnd64(&s->rig.rnd);
    if (op->opcode == GW_MLX5_ATOMIC_FA && draw(s, 4) == 0) op->operand = 1;
    /* Half of the comparisons look before: they often succeed. */
    op->compare = rnd64(&s->rig.rnd);
    if (draw(s, 4)) memcpy(&op->compare, s->rig.node[peer->q.node->index].mem + 8 * op->word, 8);
    if (op->opcode == GW_MLX5_MASKED_CS) {
        op->swap_mask = rnd64(&s->rig.rnd);
        op->compare_mask = rnd64(&s->rig.rnd);
        op->compare ^= rnd64(&s->rig.rnd) & ~op->compare_mask;
    }
    op->len = 8;
    op->locals = 1;
    op->local[0].len = 8;
    return sim_alloc(s, e->q.node->index, 8, draw(s, 2) ? 8 : 1, &op->local[0].off);
}

static void draw_op(struct sim *s, struct end *e, struct op *op)
{
    static const uint8_t opcode[KINDS] = {
        GW_MLX5_SEND,      GW_MLX5_SEND_IMM,  GW_MLX5_WRITE,     GW_MLX5_WRITE_IMM, GW_MLX5_READ,
        GW_MLX5_ATOMIC_FA, GW_MLX5_ATOMIC_CS, GW_MLX5_MASKED_FA, GW_MLX5_MASKED_CS, GW_MLX5_NOP};
    uint32_t kind = draw(s, KINDS);
    bool ok;

    for (uint32_t i = 0; i < KINDS && !(e->kinds >> kind & 1); i++) kind = (kind + 1) % KINDS;
    memset(op, 0, sizeof(*op));
    op->message = -1;
    op->opcode = opcode[kind];
    op->imm_be = (uint32_t)rnd64(&s->rig.rnd);
    op->fence = draw(s, 8) == 0;
    if (kind == K_NOP) return;
    ok = gw_mlx5_is_atomic(op->opcode) ? draw_atomic(s, e, op) : draw_payload(s, e, op);
    if (sends(op) && s->copies + op->len > SIM_COPIES) ok = false;
    if (ok) return;
    memset(op, 0, sizeof(*op)); /* no room, of whatever kind: nothing to do is work too */
    op->message = -1;
    op->opcode = GW_MLX5_NOP;
}

/* ---- writing it ---------------------------------------------------------------------------------------- */

static void key_of(struct sim *s, const struct end *e, uint32_t off, bool may_be_local,
                   struct gw_mlx5_sge *sge)
{
    struct rig_node *n = e->q.node;
    bool local = may_be_local && draw(s, 2);

    sge->lkey = sn_mr_key(local ? n->local : n->mr);
    sge->addr = (local ? n->local_iova : n->iova) + off;
}

static int write_wqe(struct sim *s, struct end *e, struct op *op)
{
    struct end *peer = sim_peer(s, e);
    struct gw_mlx5_sge sge[SIM_SGES + 1];
    struct gw_mlx5_wr wr = {.opcode = op->opcode,
                            .flags = op->flags,
                            .inl = op->inl,
                            .sge = sge,
                            .imm_be = op->imm_be,
                            .rkey = sn_mr_key(peer->q.node->mr),
                            .swap_or_add = op->operand,
                            .compare = op->compare,
                            .swap_mask = op->swap_mask,
                            .compare_mask = op->compare_mask};
    uint32_t n = 0;

    if (op->opcode == GW_MLX5_NOP) {
        uint32_t ds = 1 + draw(s, e->max_bb * 4 < 63 ? e->max_bb * 4 : 63);

        return (int)gw_mlx5_put_nop(&e->q.sq, e->q.sq_pi, ds, op->flags);
    }
    wr.raddr = peer->q.node->iova + (gw_mlx5_is_atomic(op->opcode) ? 8 * op->word : op->remote.off);
    if (!op->len && writes(op) && draw(s, 2)) wr.rkey = 0xdead, wr.raddr = 1; /* they are not read then */
    for (uint32_t i = 0; i < op->locals; i++) {
        if (op->inl)
            sge[n] = (struct gw_mlx5_sge){(uintptr_t)sim_mem(s, e, op->local[i].off), 0, 0};
        else
            key_of(s, e, op->local[i].off, true, &sge[n]);
        sge[n++].length = op->local[i].len;
    }
    wr.num_sge = n;
    return gw_mlx5_put_wr(&e->q.sq, e->q.sq_pi, &wr);
}

/* ---- the model ----------------------------------------------------------------------------------------- */

/* Between an op's local slices in exp and bytes elsewhere. */
static void copy_local(const struct end *e, const struct op *op, uint8_t *bytes, bool into_local)
{
    for (uint32_t i = 0; i < op->locals; i++) {
        uint8_t *l = sim_want(e, op->local[i].off);

        if (into_local)
            memcpy(l, bytes, op->local[i].len);
        else
            memcpy(bytes, l, op->local[i].len);
        bytes += op->local[i].len;
    }
}

static void apply(struct sim *s, struct end *e, struct op *op)
{
    struct end *peer = sim_peer(s, e);

    if (writes(op) && op->len) copy_local(e, op, sim_want(peer, op->remote.off), false);
    if (op->opcode == GW_MLX5_READ && op->len) copy_local(e, op, sim_want(peer, op->remote.off), true);
    if (sends(op)) {
        copy_local(e, op, sim_copy + s->copies, false);
        op->copy = sim_copy + s->copies;
        s->copies += op->len;
    }
    if (sends(op) || op->opcode == GW_MLX5_WRITE_IMM) {
        op->message = (int)e->messages;
        e->message_op[e->messages++] = (uint16_t)(op - e->ops);
    }
    if (op->len && writes(op)) e->last_write = (int)(op - e->ops);
    if (op->len && op->opcode == GW_MLX5_READ) e->last_read = (int)(op - e->ops);
}

/* ---- posting ------------------------------------------------------------------------------------------- */

static bool can_post(const struct end *e)
{
    return e->posted < e->goal && e->q.sq.wqebbs - e->sq_used >= e->max_bb && e->sig_out < e->sig_cap;
}

static void post_one(struct sim *s, struct end *e)
{
    struct op *op = &e->ops[e->posted];
    uint32_t room = e->q.sq.wqebbs - e->sq_used;
    int n;

    draw_op(s, e, op);
    /* A queue without a completion to come would never have room again. */
    op->signaled = e->sig_all || draw(s, 3) == 0 || e->posted + 1 == e->goal || room < 2 * e->max_bb;
    op->flags = (uint8_t)((op->signaled && (!e->sig_all || draw(s, 2)) ? GW_MLX5_SIGNALED : 0) |
                          (op->fence ? GW_MLX5_FENCE : 0) | (draw(s, 3) == 0 ? GW_MLX5_SOLICITED : 0));
    op->index = e->q.sq_pi;
    op->posted = s->step;
    if (writes(op) && op->len) op->before = sim_hash(sim_mem(s, sim_peer(s, e), op->remote.off), op->len);
    n = write_wqe(s, e, op);
    if (n < 1) {
        rig_fail(&s->rig, "a work request could not be built: %d", n);
        return;
    }
    apply(s, e, op);
    e->q.last_wqe = e->q.sq_pi;
    op->wqebbs = (uint16_t)n;
    e->q.sq_pi = (uint16_t)(e->q.sq_pi + n);
    e->sq_used += (uint32_t)n;
    e->sig_out += op->signaled;
    e->posted++;
    sim_say(s,
            "end %u posts %u: opcode %02x len %u wqe %u+%d flags %02x local %u.. (%u) remote %u message %d%s",
            e->index, e->posted - 1, op->opcode, op->len, op->index, n, op->flags, op->local[0].off,
            op->locals, op->remote.off, op->message, op->inl ? " inline" : "");
}

static void ring(struct sim *s, struct end *e)
{
    rig_ring(&e->q, draw(s, 3), e->ops[e->posted - 1].wqebbs);
    rig_kick(e->q.node, 20000);
    e->rung = e->posted;
}

void sim_post_marker(struct sim *s, struct end *e)
{
    struct op *op = &e->ops[e->posted];

    if (e->retired == e->posted || e->ops[e->posted - 1].signaled) return;
    memset(op, 0, sizeof(*op));
    op->message = -1;
    op->signaled = true;
    op->index = e->q.last_wqe = e->q.sq_pi;
    op->wqebbs = (uint16_t)gw_mlx5_put_nop(&e->q.sq, e->q.sq_pi, 1, GW_MLX5_SIGNALED);
    e->q.sq_pi++;
    e->posted++;
    rig_record(&e->q);
    ring(s, e);
}

/* Whatever was posted without a ring must not have happened. */
static void release(struct sim *s, struct end *e)
{
    struct end *peer = sim_peer(s, e);

    for (uint32_t i = e->rung; i < e->posted; i++) {
        struct op *op = &e->ops[i];

        if (writes(op) && op->fresh && op->before != sim_hash(sim_mem(s, peer, op->remote.off), op->len))
            rig_fail(&s->rig, "end %u: work request %u was executed before its doorbell was rung", e->index,
                     i);
    }
    e->hold_until = 0;
    ring(s, e);
}

static void post_some(struct sim *s, struct end *e)
{
    uint32_t n = 1 + draw(s, 6), before = e->posted;

    if (e->hold_until) {
        if (s->rig.now >= e->hold_until) release(s, e);
        return;
    }
    bool hold = e->may_hold && draw(s, 6) == 0 && rig_rings_taken(&e->q);
    while (n-- && can_post(e)) post_one(s, e);
    if (e->posted == before) return;
    rig_record(&e->q);
    if (hold) {
        e->hold_until = s->rig.now + 50000 + draw(s, 400000);
        rig_kick(e->q.node, 20000);
        s->holds++;
        return;
    }
    ring(s, e);
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

static void post_recv(struct sim *s, struct end *e)
{
    uint32_t k = e->recv_posted % e->recv_cap, at = e->slot_off + k * e->slot_len, left = e->recv_len, n = 0;
    struct gw_mlx5_sge sge[SIM_SGES];

    if (draw(s, 2)) left = e->slot_len - 32; /* more room than is needed */
    while (left && n < e->recv_max_sge) {
        uint32_t part = n + 1 == e->recv_max_sge || draw(s, 2) ? left : 1 + draw(s, left);

        e->slot[k].sge[n] = (struct slice){at, part};
        key_of(s, e, at, true, &sge[n]);
        sge[n++].length = part;
        at += part + draw(s, 4);
        left -= part;
    }
    e->slot[k].sges = n;
    if (gw_mlx5_put_recv(&e->q.rq, e->q.rq_pi, sge, n, e->q.rq.stride / 16))
        rig_fail(&s->rig, "a receive could not be built");
    e->q.rq_pi++;
    e->recv_posted++;
    rig_recv_record(&e->q);
}

/* Late, now and then before its peer has sent anything, and never more than will be taken plus a few. */
static void post_recvs(struct sim *s, struct end *e)
{
    uint32_t want = sim_peer(s, e)->messages + e->recv_ahead, n = 1 + draw(s, 4);

    while (n-- && e->recv_posted < want && e->recv_posted - e->recv_done < e->recv_cap) post_recv(s, e);
}

uint64_t sim_next_turn(struct sim *s, uint32_t *idle, bool did)
{
    *idle = did ? 0 : *idle + 1;
    return s->rig.now + ((200 + draw(s, (uint32_t)s->think)) << (*idle < 8 ? *idle / 2 : 4));
}

void sim_app(struct sim *s, struct end *e)
{
    uint32_t before = e->posted + e->recv_posted;

    if (sim_broken(s, e)) {
        e->next = s->rig.now + 1000 + draw(s, 20000);
        return;
    }
    if (draw(s, 2)) post_recvs(s, e);
    if (draw(s, 2)) post_some(s, e);
    if (draw(s, 2)) post_recvs(s, e);
    e->next = sim_next_turn(s, &e->idle, e->posted + e->recv_posted != before);
    if (draw(s, 20) == 0) e->next += draw(s, 2000000);
}

bool sim_all_posted(const struct sim *s)
{
    for (uint32_t i = 0; i < s->ends; i++)
        if (s->end[i].posted < s->end[i].goal || s->end[i].hold_until || s->end[i].broken) return false;
    return true;
}
