/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c: what a worker does whatever the policy: one batch at a time, one copy to the GPU at a time, in
 * order. */
#include "src/fleet/sim/world.h"

static void worker_result(struct sim_world *w, uint32_t message, bool ok)
{
    w->messages[message].ok = ok;
    sim_at(w, w->now_ns + sim_hop(w), EV_RESULT, message, 0);
}

/* The pages of a place are free. */
static void worker_evict(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    const struct fleet_place *b = &w->state->places[place];
    struct sim_worker *k = &w->workers[b->worker];
    GW_ASSERT(p->where == FLEET_GPU && k->gpu_used >= w->state->models[b->model].pages && !p->queue.n);
    p->where = FLEET_HOST;
    p->evict = false;
    k->gpu_used -= w->state->models[b->model].pages;
    struct fleet_action a = {.kind = FLEET_EVICT, .worker = b->worker, .model = b->model, .place = place};
    worker_result(w, sim_message(w, &a), true);
    sim_worker_admin(w, b->worker);
}

static void worker_answer(struct sim_world *w, uint32_t worker, uint32_t request)
{
    struct sim_worker *k = &w->workers[worker];
    if (k->cut) {
        sim_lose(w, request);
        return;
    }
    int64_t at = w->now_ns + sim_hop(w) + (w->central ? sim_hop(w) : 0);
    bool good = at <= w->requests[request].deadline_ns;
    k->answers++;
    k->late += !good;
    if (!w->central) sim_client_left(w, request);
    sim_finish(w, request, good ? SIM_GOOD : SIM_LATE, at);
}

void sim_worker_ended(struct sim_world *w, uint32_t worker, uint32_t life)
{
    struct sim_worker *k = &w->workers[worker];
    if (life != k->life) return;
    uint32_t place = k->running;
    for (uint32_t i = 0; i < k->nbatch; i++) worker_answer(w, worker, k->batch[i]);
    k->running = FLEET_NONE;
    k->nbatch = 0;
    if (w->central)
        sim_at(w, w->now_ns + sim_hop(w), EV_DONE, place, worker);
    else
        w->state->places[place].used_ns = w->now_ns;
    if (w->places[place].evict) worker_evict(w, place);
    if (w->central)
        sim_worker_plan(w, worker);
    else
        sim_device_look(w, worker);
}

/* An INFER that is not run: its requests are refused. */
static void worker_cancel(struct sim_world *w, const struct fleet_action *a)
{
    for (uint32_t i = 0; i < a->batch; i++)
        sim_finish(w, a->request[i], SIM_REFUSED, w->now_ns + 2 * sim_hop(w));
    sim_at(w, w->now_ns + sim_hop(w), EV_DONE, a->place, a->worker);
}

void sim_worker_plan(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    while (!k->dead && k->running == FLEET_NONE && k->plan_n) {
        struct sim_batch *b = &k->plan[k->plan_head];
        if (b->a.earliest_ns > w->now_ns) {
            if (b->a.earliest_ns >= k->timer_ns) return;
            k->timer_ns = b->a.earliest_ns;
            sim_at(w, k->timer_ns, EV_TIMER, worker, 0);
            return;
        }
        k->plan_head = (k->plan_head + 1) % SIM_PLAN;
        k->plan_n--;
        const struct sim_place *p = &w->places[b->a.place];
        if (b->life != p->life || p->where != FLEET_GPU || p->evict || w->now_ns > b->a.latest_ns) {
            worker_cancel(w, &b->a);
            continue;
        }
        k->nbatch = b->a.batch;
        for (uint32_t i = 0; i < k->nbatch; i++) k->batch[i] = b->a.request[i];
        sim_worker_start(w, worker, b->a.place);
    }
}

void sim_worker_admin(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    if (k->dead || k->copying || !k->nloads) return;
    uint32_t message = k->loads[0], place = w->messages[message].a.place;
    const struct fleet_model *m = &w->state->models[w->messages[message].a.model];
    if (k->gpu_used + m->pages > w->state->workers[worker].gpu_pages) return; /* an EVICT will look again */
    struct sim_place *p = &w->places[place];
    GW_ASSERT(p->where == FLEET_HOST);
    k->gpu_used += m->pages;
    k->copying = true;
    p->where = FLEET_LOADING;
    int64_t took = m->load_ns + (p->in_host ? 0 : m->disk_ns);
    w->result->loads++;
    sim_at(w, w->now_ns + took, EV_LOADED, message, 0);
}

void sim_worker_loaded(struct sim_world *w, uint32_t message)
{
    const struct sim_message *m = &w->messages[message];
    uint32_t worker = m->a.worker;
    struct sim_worker *k = &w->workers[worker];
    if (m->worker_life != k->life) {
        sim_message_free(w, message);
        return;
    }
    struct sim_place *p = &w->places[m->a.place];
    bool ok = !(w->o.faults & SIM_LOAD) || sim_below(&w->random, 10);
    p->in_host = true;
    p->where = ok ? FLEET_GPU : FLEET_HOST;
    if (!ok) k->gpu_used -= w->state->models[m->a.model].pages;
    w->result->failed += !ok;
    k->copying = false;
    k->nloads--;
    for (uint32_t i = 0; i < k->nloads; i++) k->loads[i] = k->loads[i + 1];
    worker_result(w, message, ok);
    sim_worker_admin(w, worker);
}

static void worker_lease(struct sim_world *w, const struct fleet_action *a)
{
    struct sim_place *p = &w->places[a->place];
    GW_ASSERT(p->where == FLEET_GPU && !p->evict && a->slots > 0);
    if (a->kind == FLEET_GRANT) p->tokens = a->slots, p->refilled_ns = w->now_ns;
    p->slots = a->slots;
    p->rate = (double)a->rate;
    p->share = a->share;
    p->max_batch = a->max_batch;
    p->until_ns = a->latest_ns;
    sim_client_lease(w, a->place, a->spill);
}

static void worker_infer(struct sim_world *w, uint32_t message)
{
    struct sim_worker *k = &w->workers[w->messages[message].a.worker];
    if (k->plan_n == SIM_PLAN) {
        worker_cancel(w, &w->messages[message].a);
        return;
    }
    struct sim_batch *b = &k->plan[(k->plan_head + k->plan_n++) % SIM_PLAN];
    b->a = w->messages[message].a;
    b->life = w->messages[message].life;
    sim_worker_plan(w, b->a.worker);
}

/* Does what a message says. False: the message is kept. */
static bool worker_do(struct sim_world *w, uint32_t message)
{
    const struct fleet_action *a = &w->messages[message].a;
    struct sim_worker *k = &w->workers[a->worker];
    struct sim_place *p = &w->places[a->place];
    switch (a->kind) {
    case FLEET_LOAD:
        GW_ASSERT(k->nloads < sizeof k->loads / sizeof k->loads[0]);
        k->loads[k->nloads++] = message;
        sim_worker_admin(w, a->worker);
        return false;
    case FLEET_EVICT:
        p->evict = true;
        sim_client_unlease(w, a->place);
        sim_device_flush(w, a->place);
        if (k->running != a->place) worker_evict(w, a->place);
        w->result->evicts++;
        return true;
    case FLEET_DROP:
        GW_ASSERT(p->where == FLEET_HOST);
        worker_result(w, message, true);
        return false;
    case FLEET_REVOKE: sim_client_unlease(w, a->place); return true;
    case FLEET_INFER: worker_infer(w, message); return true;
    default: worker_lease(w, a); return true;
    }
}

void sim_worker_action(struct sim_world *w, uint32_t message)
{
    struct sim_message *m = &w->messages[message];
    struct sim_worker *k = &w->workers[m->a.worker];
    bool gone = k->dead || m->life != w->places[m->a.place].life || m->worker_life != k->life;
    if (!gone && k->cut) {
        sim_at(w, k->cut_until_ns, EV_ACTION, message, 0);
        return;
    }
    if (gone) {
        for (uint32_t i = 0; m->a.kind == FLEET_INFER && i < m->a.batch; i++) sim_lose(w, m->a.request[i]);
        sim_message_free(w, message);
    } else if (worker_do(w, message)) {
        sim_message_free(w, message);
    }
}

void sim_worker_die(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    k->life++;
    for (uint32_t i = 0; i < k->nbatch; i++) sim_lose(w, k->batch[i]);
    for (; k->plan_n; k->plan_n--, k->plan_head = (k->plan_head + 1) % SIM_PLAN) {
        const struct fleet_action *a = &k->plan[k->plan_head].a;
        for (uint32_t i = 0; i < a->batch; i++) sim_lose(w, a->request[i]);
    }
    while (k->nbusy) {
        struct sim_place *p = &w->places[k->busy[--k->nbusy]];
        while (p->queue.n) sim_lose(w, fleet_queue_take(&p->queue, w->links));
        p->queued_at = FLEET_NONE;
    }
    /* The LOAD that is being copied is freed by its own event. */
    for (uint32_t i = k->copying; i < k->nloads; i++) sim_message_free(w, k->loads[i]);
    k->nloads = k->nbatch = 0;
    k->copying = false;
    k->running = FLEET_NONE;
    k->gpu_used = 0;
}
