/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that breaks in the middle of its work, comes back, and goes on. Both ends go to ERR, not at
 * the same time; everything posted must come back, in order; then they are reset and connected again. Whether
 * requests under way happened cannot be known, so the model takes what it finds. Other connections must not
 * notice.
 */
#include <string.h>

#include "tests/sim/sim.h"

static void adopt(struct sim *s, const struct end *e, struct slice at)
{
    memcpy(sim_want(e, at.off), sim_mem(s, e, at.off), at.len);
}

static void adopt_all(struct sim *s, struct end *e)
{
    struct end *peer = sim_peer(s, e);

    for (uint32_t i = 0; i < e->posted; i++) {
        struct op *op = &e->ops[i];

        if (!op->flushed) continue;
        adopt(s, peer, op->remote);
        for (uint32_t k = 0; k < op->locals; k++) adopt(s, e, op->local[k]);
        if (gw_mlx5_is_atomic(op->opcode)) s->word_unknown[peer->q.node->index][op->word] = true;
    }
    adopt(s, e, (struct slice){e->slot_off, e->recv_cap * e->slot_len});
}

static void forget(struct end *e)
{
    e->messages = e->recv_posted = e->recv_done = e->sq_used = e->sig_out = 0;
    e->seen = e->rung = e->posted;
    e->last_write = e->last_read = -1;
    e->broken = e->flushing = false;
}

static bool all_back(const struct end *e)
{
    return !e->err_at && e->retired == e->posted && e->recv_done == e->recv_posted;
}

/* New numbers, far from those that frames of the old connection may still carry. */
static void reconnect(struct sim *s, struct end *e, struct end *peer)
{
    uint32_t step = (1u << 22) + rnd_below(&s->rig.rnd, 1u << 21);

    e->link.sq_psn = (e->link.sq_psn + step) & 0xffffff;
    e->link.rq_psn = (e->link.rq_psn + step) & 0xffffff;
    peer->link.sq_psn = e->link.rq_psn;
    peer->link.rq_psn = e->link.sq_psn;
    for (struct end *x = e;; x = peer) {
        if (!rig_qp_state(&x->q, IBV_QPS_RESET) ||
            !rig_qp_up(&x->q, sim_peer(s, x)->q.node->index, sim_peer(s, x)->q.qpn, &x->link))
            rig_fail(&s->rig, "end %u could not be reset and connected again", x->index);
        forget(x);
        if (x == peer) break;
    }
    sim_say(s, "ends %u and %u are connected again", e->index, peer->index);
    s->breaks++;
}

bool sim_broken(struct sim *s, struct end *e)
{
    struct end *peer = sim_peer(s, e);

    if (e->break_at && !e->broken && s->rig.now >= e->break_at && !e->hold_until && !peer->hold_until) {
        e->break_at = peer->break_at = 0;
        e->broken = peer->broken = true;
        peer->err_at = s->rig.now + (rnd_below(&s->rig.rnd, 2) ? rnd_below(&s->rig.rnd, 1000000) : 0);
        e->err_at = s->rig.now;
    }
    if (!e->broken) return false;
    if (e->err_at && s->rig.now >= e->err_at) {
        e->err_at = 0;
        sim_say(s, "end %u goes to ERR", e->index);
        if (!rig_qp_state(&e->q, IBV_QPS_ERR)) rig_fail(&s->rig, "end %u could not go to ERR", e->index);
        sim_post_marker(s, e);
        rig_kick(e->q.node, 20000);
    }
    if (all_back(e) && all_back(peer)) {
        adopt_all(s, e);
        if (peer != e) adopt_all(s, peer);
        reconnect(s, e, peer);
    }
    return true;
}

/* ---- what comes back ----------------------------------------------------------------------------------- */

static void flushed_send(struct sim *s, struct end *e, uint16_t counter)
{
    uint32_t i = e->retired;

    /* Before the first that is flushed there may be some that succeeded silently. */
    while (!e->flushing && i < e->rung && e->ops[i].index != counter && !e->ops[i].signaled) i++;
    if (i >= e->rung || e->ops[i].index != counter) {
        rig_fail(&s->rig, "end %u: WQE %u is flushed; the next should be %d", e->index, counter,
                 e->retired < e->rung ? e->ops[e->retired].index : -1);
        return;
    }
    for (; e->retired < i; e->retired++) sim_retire(s, e, &e->ops[e->retired]);
    e->flushing = true;
    e->ops[i].flushed = true;
    e->retired++;
    s->flushed++;
}

void sim_flushed(struct sim *s, struct end *e, const struct gw_mlx5_wc *wc)
{
    if (!e->broken || wc->syndrome != GW_MLX5_SYND_FLUSHED) {
        rig_fail(&s->rig, "end %u: error completion, opcode %u, WQE %u, syndrome %02x", e->index, wc->opcode,
                 wc->wqe_counter, wc->syndrome);
    } else if (wc->opcode == GW_MLX5_CQE_REQ_ERR) {
        flushed_send(s, e, wc->wqe_counter);
    } else if (wc->wqe_counter != (uint16_t)e->recv_done || e->recv_done >= e->recv_posted) {
        rig_fail(&s->rig, "end %u: receive %u is flushed, the next should be %u of %u", e->index,
                 wc->wqe_counter, (uint16_t)e->recv_done, e->recv_posted);
    } else {
        e->recv_done++;
        s->flushed++;
    }
}
