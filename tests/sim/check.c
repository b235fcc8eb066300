/* SPDX-License-Identifier: Apache-2.0 */
/* Completions, one by one; and what must hold when all is done. */
#include <string.h>

#include "src/roce/atomic.h"
#include "tests/sim/sim.h"

uint64_t sim_hash(const uint8_t *p, uint32_t n)
{
    uint64_t h = n;

    while (n--) h = (h ^ *p++) * 1099511628211u;
    return h;
}

/* The application uses its memory again: what the NIC does there from now on is wrong. */
void sim_scribble(struct sim *s, const struct end *e, struct slice at)
{
    uint8_t *mem = sim_mem(s, e, at.off), mask = (uint8_t)(1 + rnd_below(&s->rig.rnd, 255));

    if (!at.len) return;
    sim_say(s, "node %u scribbles on %u bytes at %u with %02x", e->q.node->index, at.len, at.off, mask);
    for (uint32_t i = 0; i < at.len; i++) mem[i] ^= mask;
    memcpy(sim_want(e, at.off), mem, at.len);
}

static bool same(struct sim *s, const struct end *e, struct slice at, const char *what, uint32_t number)
{
    const uint8_t *mem = sim_mem(s, e, at.off), *want = sim_want(e, at.off);

    if (!memcmp(mem, want, at.len)) return true;
    for (uint32_t i = 0; i < at.len; i++)
        if (mem[i] != want[i]) {
            rig_fail(&s->rig, "end %u, %s %u: byte %u of %u (node %u, offset %u) is %02x and should be %02x",
                     e->index, what, number, i, at.len, e->q.node->index, at.off + i, mem[i], want[i]);
            break;
        }
    return false;
}

/* ---- completions of the sender ------------------------------------------------------------------------- */

/* Bytes that scatter-to-CQE put into the entry are copied to where they belong, as libmlx5 does. */
static void unpack(struct sim *s, const struct end *e, const struct slice *to, uint32_t n,
                   const uint8_t *data, uint32_t len)
{
    for (uint32_t i = 0; i < n && len; i++) {
        uint32_t part = to[i].len < len ? to[i].len : len;

        memcpy(sim_mem(s, e, to[i].off), data, part);
        data += part;
        len -= part;
    }
}

void sim_retire(struct sim *s, struct end *e, struct op *op)
{
    uint32_t i = (uint32_t)(op - e->ops);
    struct end *peer = sim_peer(s, e);
    bool atomic = gw_mlx5_is_atomic(op->opcode);
    bool write = op->opcode == GW_MLX5_WRITE || op->opcode == GW_MLX5_WRITE_IMM;

    op->completed = s->step;
    s->ops_done++;
    if (atomic) {
        memcpy(&op->orig, sim_mem(s, e, op->local[0].off), 8);
        memcpy(sim_want(e, op->local[0].off), &op->orig, 8);
        s->atomics_done++;
    }
    if (write && op->len && !op->superseded)
        same(s, peer, op->remote, "target of its peer's work request", i);
    for (uint32_t k = 0; k < op->locals; k++) same(s, e, op->local[k], "local memory of work request", i);
    if (rnd_below(&s->rig.rnd, 2)) {
        if (!op->keep_remote && !op->superseded) sim_scribble(s, peer, op->remote);
        for (uint32_t k = 0; k < op->locals && !op->keep_local; k++) sim_scribble(s, e, op->local[k]);
    }
    /* The queue's memory is the driver's again. */
    for (uint32_t k = 0; k < op->wqebbs; k++)
        memset(gw_mlx5_sq_at(&e->q.sq, (uint32_t)(op->index + k) * GW_MLX5_UNITS_PER_BB), 0xa5,
               GW_MLX5_WQEBB);
    e->sq_used -= op->wqebbs;
    e->sig_out -= op->signaled;
}

static void check_sent(struct sim *s, struct end *e, const struct gw_mlx5_wc *wc, const uint8_t *data)
{
    struct op *op;
    uint32_t i = e->retired;

    while (i < e->posted && !e->ops[i].signaled) i++;
    op = &e->ops[i];
    if (i >= e->rung || op->index != wc->wqe_counter) {
        rig_fail(&s->rig,
                 "end %u: completion of WQE %u; the next should be of %d (work request %u of %u rung)",
                 e->index, wc->wqe_counter, i < e->posted ? op->index : -1, i, e->rung);
        return;
    }
    if (wc->wqe_opcode != op->opcode)
        rig_fail(&s->rig, "end %u: completion says opcode %02x, the WQE's is %02x", e->index, wc->wqe_opcode,
                 op->opcode);
    if ((op->opcode == GW_MLX5_READ || gw_mlx5_is_atomic(op->opcode)) && wc->byte_cnt != op->len)
        rig_fail(&s->rig, "end %u: completion of %u bytes, the request was for %u", e->index, wc->byte_cnt,
                 op->len);
    if (wc->scatter) unpack(s, e, op->local, op->locals, data, op->len);
    for (; e->retired <= i && !s->rig.failed; e->retired++) sim_retire(s, e, &e->ops[e->retired]);
}

/* ---- completions of the receiver ----------------------------------------------------------------------- */

/* A receive vouches for every WRITE before it. */
static void check_writes_before(struct sim *s, struct end *sender, uint32_t upto)
{
    for (; sender->seen <= upto; sender->seen++) {
        struct op *op = &sender->ops[sender->seen];

        if ((op->opcode == GW_MLX5_WRITE || op->opcode == GW_MLX5_WRITE_IMM) && op->len && !op->superseded)
            if (!same(s, sim_peer(s, sender), op->remote, "target of WRITE before a message, work request",
                      sender->seen))
                return;
    }
}

static void check_recv(struct sim *s, struct end *e, const struct gw_mlx5_wc *wc, const uint8_t *data)
{
    struct end *sender = sim_peer(s, e);
    uint32_t number = e->recv_done, k = number % e->recv_cap, off = 0;
    uint8_t want_opcode;
    struct op *op;

    if (number >= sender->messages) {
        rig_fail(&s->rig, "end %u: %u messages were sent, and here is one more", e->index, number);
        return;
    }
    op = &sender->ops[sender->message_op[number]];
    want_opcode = op->opcode == GW_MLX5_SEND       ? GW_MLX5_CQE_RESP_SEND
                  : op->opcode == GW_MLX5_SEND_IMM ? GW_MLX5_CQE_RESP_SEND_IMM
                                                   : GW_MLX5_CQE_RESP_WR_IMM;
    if (sender->message_op[number] >= sender->rung)
        rig_fail(&s->rig, "end %u: message %u came before its doorbell was rung", e->index, number);
    if (wc->opcode != want_opcode || wc->byte_cnt != op->len || wc->wqe_counter != (uint16_t)number)
        rig_fail(
            &s->rig,
            "end %u: message %u: opcode %u, %u bytes, receive %u; should be opcode %u, %u bytes, receive %u",
            e->index, number, wc->opcode, wc->byte_cnt, wc->wqe_counter, want_opcode, op->len,
            (uint16_t)number);
    if (op->opcode != GW_MLX5_SEND && wc->imm_be != op->imm_be)
        rig_fail(&s->rig, "end %u: message %u: immediate %08x, was sent as %08x", e->index, number,
                 wc->imm_be, op->imm_be);
    if (wc->solicited != !!(op->flags & GW_MLX5_SOLICITED))
        rig_fail(&s->rig, "end %u: message %u: solicited %u, was sent as %u", e->index, number, wc->solicited,
                 !!(op->flags & GW_MLX5_SOLICITED));
    if (op->copy) {
        if (wc->scatter) unpack(s, e, e->slot[k].sge, e->slot[k].sges, data, op->len);
        for (uint32_t i = 0; i < e->slot[k].sges && off < op->len; i++) {
            uint32_t part = op->len - off < e->slot[k].sge[i].len ? op->len - off : e->slot[k].sge[i].len;

            memcpy(sim_want(e, e->slot[k].sge[i].off), op->copy + off, part);
            off += part;
        }
    }
    check_writes_before(s, sender, sender->message_op[number]);
    for (uint32_t i = 0; i < e->slot[k].sges; i++) same(s, e, e->slot[k].sge[i], "receive", number);
    if (rnd_below(&s->rig.rnd, 2))
        for (uint32_t i = 0; i < e->slot[k].sges; i++) sim_scribble(s, e, e->slot[k].sge[i]);
    memset((uint8_t *)e->q.rq.buf + (size_t)(number & (e->q.rq.wqes - 1)) * e->q.rq.stride, 0xa5,
           e->q.rq.stride);
    e->recv_done++;
    s->messages_done++;
}

/* ---- completion queues --------------------------------------------------------------------------------- */

static void take(struct sim *s, struct simcq *cq)
{
    struct gw_mlx5_wc wc;
    uint8_t data[64];
    struct end *e = s->end;

    if (!rig_poll(&cq->c, &wc, data) || s->rig.failed) return;
    while (e < s->end + s->ends && (e->q.qpn != wc.qpn || e->q.node != cq->c.node)) e++;
    if (e == s->end + s->ends || e->q.uidx != wc.uidx) {
        rig_fail(&s->rig, "a completion of qp 0x%x, user index 0x%x, which does not exist", wc.qpn, wc.uidx);
        return;
    }
    sim_say(s, "cq 0x%x: end %u completes: opcode %u wqe %u bytes %u%s", cq->c.number, e->index, wc.opcode,
            wc.wqe_counter, wc.byte_cnt, wc.solicited ? ", solicited" : "");
    if (gw_mlx5_wc_is_error(&wc))
        sim_flushed(s, e, &wc);
    else if (&cq->c != (wc.opcode == GW_MLX5_CQE_REQ ? e->q.send_cq : e->q.recv_cq))
        rig_fail(&s->rig, "end %u: a completion in the wrong queue", e->index);
    else if (wc.opcode == GW_MLX5_CQE_REQ)
        check_sent(s, e, &wc, data);
    else
        check_recv(s, e, &wc, data);
}

static bool ready(const struct simcq *cq)
{
    return rig_has_completion(&cq->c, false);
}

static void arm(struct sim *s, struct simcq *cq, bool solicited)
{
    rig_arm(&cq->c, solicited);
    sim_say(s, "cq 0x%x of node %u armed at %u%s", cq->c.number, cq->c.node->index, cq->c.ci,
            solicited ? ", solicited" : "");
    rig_kick(cq->c.node, 20000);
    cq->arms++;
}

/* Takes the event, as ibv_get_cq_event does; an arm before that would be for the event that is there already.
 */
static bool take_event(struct sim *s, struct simcq *cq)
{
    if (!cq->c.events) return false;
    if (cq->c.events > 1) rig_fail(&s->rig, "cq 0x%x: %u events for one arm", cq->c.number, cq->c.events);
    sim_say(s, "cq 0x%x of node %u: event", cq->c.number, cq->c.node->index);
    cq->c.events = 0;
    cq->c.sn++;
    cq->events++;
    s->events_seen++;
    return true;
}

void sim_poll(struct sim *s, struct simcq *cq)
{
    bool event = take_event(s, cq);

    cq->next = sim_next_turn(s, &cq->idle, ready(cq));
    if (cq->mode == CQ_EVENTS && !s->draining) {
        /* The pattern of every sleeping program: it must never sleep through a completion. */
        if (!event && cq->arms) return;
        while (ready(cq) && !s->rig.failed) take(s, cq);
        arm(s, cq, false);
        while (ready(cq) && !s->rig.failed) take(s, cq);
        return;
    }
    for (uint32_t n = 1 + rnd_below(&s->rig.rnd, 8); n && ready(cq) && !s->rig.failed; n--) take(s, cq);
    if (cq->mode == CQ_MIXED && !cq->c.armed && !cq->c.events && !s->draining && !rnd_below(&s->rig.rnd, 3))
        arm(s, cq, rnd_below(&s->rig.rnd, 2));
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* The word after an atomic. */
static uint64_t effect(const struct op *op, uint64_t value)
{
    switch (op->opcode) {
    case GW_MLX5_ATOMIC_FA: return value + op->operand;
    case GW_MLX5_ATOMIC_CS: return value == op->compare ? op->operand : value;
    case GW_MLX5_MASKED_FA: return roce_masked_add(value, op->operand, op->compare);
    default: return roce_masked_swap(value, op->operand, op->compare, op->swap_mask, op->compare_mask);
    }
}

/*
 * All operations on one word in the order in which they can have happened: each that changed the word found
 * what the one before left. Values are random, so there is one such order. It must agree with every queue
 * pair's own order. None may come after one that was posted after it completed.
 */
static void check_word(struct sim *s, uint32_t node, uint32_t word)
{
    struct {
        struct op *op;
        uint32_t end, place;
        bool used;
    } a[RIG_QPS * SIM_OPS];
    uint32_t n = 0, left, last[RIG_QPS] = {0};
    uint64_t value = s->word_start[node][word], there, latest = 0;

    for (uint32_t e = 0; e < s->ends; e++)
        for (uint32_t i = 0; i < s->end[e].posted && sim_peer(s, &s->end[e])->q.node->index == node; i++) {
            struct op *op = &s->end[e].ops[i];

            if (!gw_mlx5_is_atomic(op->opcode) || op->word != word) continue;
            a[n].op = op;
            a[n].end = e;
            a[n].used = false;
            a[n++].place = UINT32_MAX;
        }
    left = n;
    for (uint32_t place = 0; left; place++) {
        uint32_t found = n;

        /* First the ones that saw this value and left it, then the one that changed it. */
        for (uint32_t i = 0; i < n; i++) {
            struct op *op = a[i].op;

            if (a[i].used || op->orig != value) continue;
            if (effect(op, value) != value) {
                if (found == n || op->posted < a[found].op->posted) found = i;
                continue;
            }
            a[i].used = true;
            a[i].place = 2 * place;
            left--;
        }
        if (found == n) break;
        a[found].used = true;
        a[found].place = 2 * place + 1;
        left--;
        value = effect(a[found].op, value);
        if (a[found].op->completed < latest)
            rig_fail(&s->rig, "node %u word %u: an atomic took effect after it had completed", node, word);
        if (a[found].op->posted > latest) latest = a[found].op->posted;
    }
    if (left)
        rig_fail(&s->rig, "node %u word %u: no order explains the results of %u of %u atomics", node, word,
                 left, n);
    for (uint32_t i = 0; i < n; i++) { /* listed in each queue pair's order */
        if (a[i].place < last[a[i].end])
            rig_fail(&s->rig, "node %u word %u: end %u's atomics happened out of order", node, word,
                     a[i].end);
        last[a[i].end] = a[i].place;
    }
    memcpy(&there, s->rig.node[node].mem + 8 * word, 8);
    if (there != value && !left)
        rig_fail(&s->rig, "node %u word %u: not what its last atomic left", node, word);
}

static void check_memory(struct sim *s, uint32_t node)
{
    const uint8_t *mem = s->rig.node[node].mem;

    if (!memcmp(mem + SIM_WORDS_BYTES, sim_exp[node] + SIM_WORDS_BYTES, RIG_ARENA - SIM_WORDS_BYTES)) return;
    for (uint32_t i = SIM_WORDS_BYTES; i < RIG_ARENA; i++)
        if (mem[i] != sim_exp[node][i]) {
            rig_fail(&s->rig, "node %u: at the end byte %u is %02x and should be %02x", node, i, mem[i],
                     sim_exp[node][i]);
            return;
        }
}

void sim_check_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->cqs; i++) {
        struct simcq *cq = &s->cq[i];

        take_event(s, cq);
        if (cq->c.armed && rig_arm_met(&cq->c))
            rig_fail(&s->rig, "cq 0x%x of node %u: armed, completed, and no event", cq->c.number,
                     cq->c.node->index);
    }
    for (uint32_t n = 0; n < s->rig.nodes && !s->rig.failed; n++) {
        for (uint32_t w = 0; w < SIM_WORDS; w++)
            if (!s->word_unknown[n][w]) check_word(s, n, w);
        check_memory(s, n);
    }
    if (!s->rig.failed) sim_guests_check_end(s);
}
