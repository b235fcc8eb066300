/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: the controller: it counts demand, runs the planner, sends its actions and learns how they
 * ended. */
#include <math.h>

#include "src/fleet/sim/world.h"

static const double control_windows[FLEET_WINDOWS] = {0.1, 1, 10};

/* What was counted since the last round becomes rates. */
static void control_demand(struct sim_world *w)
{
    double dt = (double)(w->now_ns - w->last_round_ns) * 1e-9, keep[FLEET_WINDOWS];
    if (dt <= 0) return;
    for (int i = 0; i < FLEET_WINDOWS; i++) keep[i] = exp(-dt / control_windows[i]);
    for (uint32_t m = 0; m < w->o.models; m++) {
        struct sim_model *model = &w->models[m];
        struct fleet_demand *d = &w->state->demand[m];
        uint32_t all = 0;
        for (int c = 0; c < 2; c++) {
            double x = model->count[c] / dt;
            d->class[c].rate = (float)(x + (d->class[c].rate - x) * keep[1]);
            all += model->count[c];
            model->count[c] = 0;
        }
        for (int i = 0; i < FLEET_WINDOWS; i++) {
            d->rate[i] = (float)(all / dt + (d->rate[i] - all / dt) * keep[i]);
        }
        if (model->waiting.n) sim_client_expire(w, m);
        d->class[0].waiting = w->central ? w->central->models[m].queue.n : model->waiting.n;
    }
    w->last_round_ns = w->now_ns;
}

/* What workers and clients tell: how many answers were late, and whether a clock is wrong. */
static void control_telemetry(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->o.workers; i++) {
        struct sim_worker *k = &w->workers[i];
        struct fleet_worker *b = &w->state->workers[i];
        if (k->answers >= 50) {
            b->late = 0.8f * b->late + 0.2f * (float)k->late / (float)k->answers;
            k->answers = k->late = 0;
        }
        int64_t off = k->clock_ns < 0 ? -k->clock_ns : k->clock_ns;
        if (off > w->o.clock_error_ns + sim_way(w)) b->late = 1;
    }
}

/* Actions arrive in their order: what shrinks a lease comes before what grows another. */
static void control_send(struct sim_world *w, uint32_t n)
{
    int64_t at = w->now_ns + sim_hop(w);
    if (at < w->last_sent_ns) at = w->last_sent_ns;
    w->last_sent_ns = at;
    for (uint32_t i = 0; i < n; i++) {
        const struct fleet_action *a = &w->actions[i];
        if (a->kind == FLEET_SHED) {
            w->models[a->model].admitted[a->class] = a->admitted;
            continue;
        }
        if (a->kind == FLEET_EVICT && w->central) fleet_central_place(w->central, a->place, false);
        sim_at(w, at, EV_ACTION, sim_message(w, a), 0);
        sim_note(w, a->kind, a->place);
    }
    w->result->actions += n;
}

void sim_control_round(struct sim_world *w, bool asked)
{
    if (w->now_ns < w->paused_until_ns) {
        sim_at(w, w->paused_until_ns, EV_ROUND, 0, asked);
        return;
    }
    if (asked)
        w->asked_round_ns = 0;
    else if (w->open || w->arrived < w->o.requests)
        sim_at(w, w->now_ns + w->o.round_ns, EV_ROUND, 0, 0);
    control_demand(w);
    control_telemetry(w);
    uint32_t n;
    if (w->o.policy == SIM_CLOCKWORK)
        n = fleet_clockwork_round(w->central, w->now_ns, w->actions, SIM_MAX_ACTIONS);
    else
        n = fleet_plan(w->state, &w->tuning, w->now_ns, w->actions, SIM_MAX_ACTIONS);
    w->result->rounds++;
    control_send(w, n);
    GW_CHECK(sim_check(w));
}

/* The place is no more, in the state and in truth. */
static void control_remove(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    sim_client_unlease(w, place);
    GW_ASSERT(!p->queue.n && p->queued_at == FLEET_NONE);
    *p = (struct sim_place){.queue = FLEET_QUEUE_EMPTY, .life = p->life + 1};
    p->queued_at = p->leased_at = FLEET_NONE;
    p->max_batch = 1;
    if (w->central) fleet_central_place(w->central, place, false);
}

void sim_control_result(struct sim_world *w, uint32_t message)
{
    struct sim_message *m = &w->messages[message];
    const struct sim_worker *k = &w->workers[m->a.worker];
    if (w->now_ns < w->paused_until_ns || (k->cut && m->life == w->places[m->a.place].life)) {
        sim_at(w, w->paused_until_ns > w->now_ns ? w->paused_until_ns : k->cut_until_ns, EV_RESULT, message,
               0);
        return;
    }
    uint32_t place = m->a.place;
    bool known = m->life == w->places[place].life && m->worker_life == k->life;
    if (known && m->a.kind == FLEET_LOAD) {
        fleet_loaded(w->state, place, m->ok, w->now_ns);
        if (m->ok && w->central) fleet_central_place(w->central, place, true);
        if (!w->central && w->models[m->a.model].waiting.n) sim_ask(w);
        if (w->central) sim_control_wake(w);
    } else if (known && m->a.kind == FLEET_EVICT) {
        fleet_place_move(w->state, place, FLEET_HOST, w->now_ns);
    } else if (known) {
        control_remove(w, place);
        fleet_place_remove(w->state, place);
    }
    sim_message_free(w, message);
}

void sim_control_request(struct sim_world *w, uint32_t request)
{
    const struct sim_request *r = &w->requests[request];
    if (w->now_ns < w->paused_until_ns) {
        /* Nothing keeps a client waiting beyond its deadline. */
        if (r->deadline_ns < w->paused_until_ns)
            sim_lose(w, request);
        else
            sim_at(w, w->paused_until_ns, EV_DELIVER, request, 0);
        return;
    }
    w->result->messages += 2;
    w->links[request].deadline_ns = r->deadline_ns - 2 * sim_way(w);
    fleet_central_request(w->central, request, r->model, w->now_ns);
    if (w->central->models[r->model].queue.n == 1) {
        bool here = false;
        for (uint32_t i = w->state->models[r->model].first; i != FLEET_NONE;
             i = w->state->places[i].next_of_model) {
            here =
                here || w->state->places[i].where == FLEET_GPU || w->state->places[i].where == FLEET_LOADING;
        }
        if (!here) sim_ask(w);
    }
    sim_control_wake(w);
}

void sim_control_done(struct sim_world *w, uint32_t place, uint32_t worker)
{
    w->result->messages++;
    fleet_central_ended(w->central, worker, place, w->now_ns);
    sim_control_wake(w);
}

void sim_control_wake(struct sim_world *w)
{
    if (w->now_ns < w->paused_until_ns) {
        sim_at(w, w->paused_until_ns, EV_WAKE, 0, 0);
        return;
    }
    if (w->central_wake_ns <= w->now_ns) w->central_wake_ns = INT64_MAX;
    while (fleet_central_wake(w->central) <= w->now_ns) {
        uint32_t n = fleet_central_step(w->central, w->now_ns, w->actions, SIM_MAX_ACTIONS);
        for (uint32_t i = 0; i < n; i++) {
            const struct fleet_action *a = &w->actions[i];
            bool nowhere = a->kind == FLEET_REFUSE && w->state->models[a->model].first == FLEET_NONE;
            if (a->kind == FLEET_INFER) sim_at(w, w->now_ns + sim_hop(w), EV_ACTION, sim_message(w, a), 0);
            for (int k = 0; a->kind == FLEET_REFUSE && k < a->batch; k++) {
                sim_finish(w, a->request[k], nowhere ? SIM_NOWHERE : SIM_REFUSED, w->now_ns + sim_hop(w));
            }
            w->result->messages++;
        }
    }
    int64_t next = fleet_central_wake(w->central);
    if (next < w->central_wake_ns) {
        w->central_wake_ns = next;
        sim_at(w, next, EV_WAKE, 0, 0);
    }
}

void sim_control_expire(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    if (!k->dead && !k->cut) return;
    /* Its entry in etcd is gone. A worker that was only cut off sees that too, and serves no one. */
    if (!k->dead) sim_worker_die(w, worker);
    for (uint32_t i = w->state->workers[worker].first; i != FLEET_NONE;
         i = w->state->places[i].next_of_worker) {
        control_remove(w, i);
    }
    fleet_worker_gone(w->state, worker);
    if (w->central) w->central->workers[worker].sent = 0;
}
