/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_moves.c: ACTIONs of the leader, each within its window. One whose window has not begun waits here;
 * the engine gets it then, and ends it. The leader that sent it hears RESULT. If another one is there by
 * then, it hears where the model is (HAS_MODEL).
 */
#include "src/fleet/worker/agent_impl.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct agent_move {
    struct agent_ring ring; /* of those that the engine does not have yet; else alone */
    struct fleet_handed handed;
    struct fleet_move move;
    struct fleet_agent *agent;
    uint64_t seq, connection;
    struct fleet_timer timer;
};

/* The loop's thread: the engine has ended it. */
static void moves_ended(struct fleet_handed *h)
{
    struct agent_move *m = AGENT_OF(struct agent_move, handed, h);
    struct fleet_agent *a = m->agent;
    struct fleet_has_model has;
    if (a->control && m->connection == a->connection) {
        agent_send(a, FLEET_RESULT, m->seq, &m->move.result, sizeof(m->move.result));
    } else if (m->move.model < a->facts.models) {
        a->o.engine->ops->model(a->o.engine, m->move.model, &has);
        agent_send(a, FLEET_HAS_MODEL, 0, &has, sizeof(has));
    }
    a->nmoves--;
    free(m);
}

/* Any thread. */
static void moves_done(struct fleet_move *move)
{
    struct agent_move *m = AGENT_OF(struct agent_move, move, move);
    fleet_handover_put(m->agent->done, &m->handed);
}

static void moves_refuse(struct agent_move *m, enum fleet_outcome outcome, const char *why)
{
    struct fleet_agent *a = m->agent;
    agent_result(a, m->seq, m->move.model, outcome, why);
    agent_ring_remove(&m->ring);
    a->nmoves--;
    free(m);
}

static void moves_begin(void *ctx)
{
    struct agent_move *m = ctx;
    struct fleet_agent *a = m->agent;
    char why[FLEET_WHY];
    int64_t late = agent_now(a) - m->move.latest_at;
    if (late > 0) {
        snprintf(why, sizeof(why), "its window ended %lld us before it could begin", (long long)late / 1000);
        moves_refuse(m, FLEET_TOO_LATE, why);
        return;
    }
    agent_ring_remove(&m->ring);
    a->o.engine->ops->move(a->o.engine, &m->move);
}

/* What is wrong with it at once; FLEET_DONE: nothing. */
static enum fleet_outcome moves_check(const struct fleet_agent *a, const struct fleet_act *act, char *why)
{
    *why = 0;
    if (act->term < a->term) {
        snprintf(why, FLEET_WHY, "term %llu is over: term %llu has been seen", (unsigned long long)act->term,
                 (unsigned long long)a->term);
        return FLEET_OLD_TERM;
    }
    if (act->model >= a->facts.models) {
        snprintf(why, FLEET_WHY, "this worker has %u models, and no number %u", a->facts.models, act->model);
        return FLEET_NO_MODEL;
    }
    if (act->kind != FLEET_LOAD && act->kind != FLEET_EVICT && act->kind != FLEET_DROP) {
        snprintf(why, FLEET_WHY, "action %u is neither LOAD, EVICT nor DROP", act->kind);
        return FLEET_BAD;
    }
    if (act->earliest_at > act->latest_at) {
        snprintf(why, FLEET_WHY, "its window ends before it begins");
        return FLEET_BAD;
    }
    if (a->nmoves >= AGENT_MAX_MOVES) {
        snprintf(why, FLEET_WHY, "%u actions are under way", a->nmoves);
        return FLEET_NO_ROOM;
    }
    return FLEET_DONE;
}

void agent_moves_action(struct fleet_agent *a, uint64_t seq, const struct fleet_act *act)
{
    char why[FLEET_WHY];
    enum fleet_outcome outcome = moves_check(a, act, why);
    if (outcome != FLEET_OLD_TERM && act->term > a->term) a->term = act->term;
    struct agent_move *m = outcome == FLEET_DONE ? calloc(1, sizeof(*m)) : NULL;
    if (!m) {
        agent_result(a, seq, act->model, outcome == FLEET_DONE ? FLEET_NO_ROOM : outcome,
                     outcome == FLEET_DONE ? "no memory" : why);
        return;
    }
    m->agent = a;
    m->seq = seq;
    m->connection = a->connection;
    m->handed.f = moves_ended;
    m->move = (struct fleet_move){
        .done = moves_done, .kind = act->kind, .model = act->model, .latest_at = act->latest_at};
    agent_ring_init(&m->ring);
    agent_ring_add(&a->moves, &m->ring);
    a->nmoves++;
    if (act->earliest_at <= agent_now(a))
        moves_begin(m);
    else if (fleet_timer_set(a->o.loop, &m->timer, act->earliest_at, moves_begin, m))
        moves_refuse(m, FLEET_NO_ROOM, "no memory");
}

void agent_moves_forget(struct fleet_agent *a)
{
    while (a->moves.next != &a->moves) {
        struct agent_move *m = AGENT_OF(struct agent_move, ring, a->moves.next);
        fleet_timer_clear(a->o.loop, &m->timer);
        agent_ring_remove(&m->ring);
        a->nmoves--;
        free(m);
    }
}
