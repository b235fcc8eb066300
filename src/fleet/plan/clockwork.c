/* SPDX-License-Identifier: Apache-2.0 */
/* clockwork.c: Clockwork's policy. For each model and batch size there is a moment at which the batch must
 * begin; a GPU takes the one that must begin first. A model is loaded where the work that waits for it is
 * more than its GPUs can do. */
#include "src/fleet/plan/central.h"

#define CLOCKWORK_HORIZON_S 0.1f /* a GPU can do as much work in this time as it lasts */

/* The largest batch size that was measured, that is there, and that keeps the head's deadline. */
static uint32_t clockwork_batch(struct fleet_central *c, uint32_t model, const struct fleet_central_times *t,
                                struct fleet_central_out *out)
{
    const struct fleet_queue *q = &c->models[model].queue;
    const struct fleet_model *m = &c->s->models[model];
    while (q->n && c->links[q->head].deadline_ns < t->soonest_ns + m->exec_ns[0] &&
           out->n + FLEET_CENTRAL_ROOM < out->max) {
        fleet_central_refuse(c, model, out);
    }
    uint32_t n = fleet_queue_batch(q, c->links, m, t->start_ns, FLEET_MAX_BATCH);
    return n ? 1U << (31 - __builtin_clz(n)) : 0;
}

const struct fleet_central_policy fleet_clockwork = {.batch = clockwork_batch};

/* Seconds of work that wait for a model. */
static float clockwork_demand(const struct fleet_central *c, uint32_t model)
{
    const struct fleet_model *m = &c->s->models[model];
    uint32_t n = c->models[model].queue.n, batch = n < FLEET_MAX_BATCH ? n : FLEET_MAX_BATCH;
    return batch ? (float)n / (float)batch * (float)fleet_exec(m, batch) * 1e-9f : 0;
}

static uint32_t clockwork_replicas(const struct fleet_central *c, uint32_t model)
{
    uint32_t n = 0;
    for (uint32_t i = c->s->models[model].first; i != FLEET_NONE; i = c->s->places[i].next_of_model) {
        n += c->s->places[i].where == FLEET_GPU || c->s->places[i].where == FLEET_LOADING;
    }
    return n;
}

/* The work of a model that its GPUs will not do in time. */
static float clockwork_priority(const struct fleet_central *c, uint32_t model)
{
    float demand = clockwork_demand(c, model), served = 0;
    uint32_t replicas = clockwork_replicas(c, model);
    for (uint32_t i = c->s->models[model].first; i != FLEET_NONE; i = c->s->places[i].next_of_model) {
        const struct fleet_place *p = &c->s->places[i];
        if (p->where != FLEET_GPU && p->where != FLEET_LOADING) continue;
        float load = c->work[p->worker];
        served += demand / (float)replicas * (load > CLOCKWORK_HORIZON_S ? CLOCKWORK_HORIZON_S / load : 1);
    }
    return demand - served;
}

static bool clockwork_has(const struct fleet_central *c, uint32_t worker, uint32_t model)
{
    uint32_t place = fleet_place_find(c->s, worker, model);
    const struct fleet_place *p = place == FLEET_NONE ? NULL : &c->s->places[place];
    return p && (p->where != FLEET_HOST || p->retry_ns);
}

/* Pushes out the models used longest ago until `pages` are free. */
static bool clockwork_evict(struct fleet_central *c, uint32_t worker, uint32_t pages, int64_t now_ns,
                            struct fleet_central_out *out)
{
    const struct fleet_worker *w = &c->s->workers[worker];
    uint32_t used = w->gpu_used;
    for (uint32_t i = w->first; i != FLEET_NONE; i = c->s->places[i].next_of_worker) {
        if (c->s->places[i].where == FLEET_LEAVING) used -= c->s->models[c->s->places[i].model].pages;
    }
    while (used + pages > w->gpu_pages && out->n < out->max) {
        uint32_t victim = FLEET_NONE;
        for (uint32_t i = w->first; i != FLEET_NONE; i = c->s->places[i].next_of_worker) {
            const struct fleet_place *p = &c->s->places[i];
            bool idle = p->where == FLEET_GPU && !c->places[i].sent && !c->models[p->model].queue.n;
            if (idle && (victim == FLEET_NONE || p->used_ns < c->s->places[victim].used_ns)) victim = i;
        }
        if (victim == FLEET_NONE) return false;
        uint32_t model = c->s->places[victim].model;
        out->a[out->n++] =
            (struct fleet_action){.kind = FLEET_EVICT, .worker = worker, .model = model, .place = victim};
        fleet_central_place(c, victim, false);
        fleet_place_move(c->s, victim, FLEET_LEAVING, now_ns);
        used -= c->s->models[model].pages;
    }
    return used + pages <= w->gpu_pages;
}

/* The model comes to the GPU that has least to do and loads nothing. */
static void clockwork_load(struct fleet_central *c, uint32_t model, int64_t now_ns,
                           struct fleet_central_out *out)
{
    uint32_t best = FLEET_NONE, pages = c->s->models[model].pages;
    for (uint32_t i = 0; i < c->s->limits.workers; i++) {
        const struct fleet_worker *w = &c->s->workers[i];
        if (w->health != FLEET_ACTIVE || w->loading || clockwork_has(c, i, model)) continue;
        bool room = w->host_pages - w->host_used >= pages || fleet_place_find(c->s, i, model) != FLEET_NONE;
        if (room && (best == FLEET_NONE || c->work[i] < c->work[best])) best = i;
    }
    if (best == FLEET_NONE || !clockwork_evict(c, best, pages, now_ns, out) || out->n >= out->max) return;
    uint32_t place = fleet_place_find(c->s, best, model);
    if (place == FLEET_NONE) place = fleet_place_add(c->s, best, model, now_ns);
    if (place == FLEET_NONE) return;
    out->a[out->n++] =
        (struct fleet_action){.kind = FLEET_LOAD, .worker = best, .model = model, .place = place};
    fleet_place_move(c->s, place, FLEET_LOADING, now_ns);
    c->work[best] += clockwork_demand(c, model);
}

uint32_t fleet_clockwork_round(struct fleet_central *c, int64_t now_ns, struct fleet_action *a, uint32_t max)
{
    struct fleet_central_out out = {a, 0, max};
    for (uint32_t i = 0; i < c->s->limits.workers; i++) c->work[i] = 0;
    for (uint32_t m = 0; m < c->s->limits.models; m++) {
        uint32_t replicas = c->models[m].queue.n ? clockwork_replicas(c, m) : 0;
        for (uint32_t i = c->s->models[m].first; replicas && i != FLEET_NONE;
             i = c->s->places[i].next_of_model) {
            uint8_t where = c->s->places[i].where;
            bool here = where == FLEET_GPU || where == FLEET_LOADING;
            if (here) c->work[c->s->places[i].worker] += clockwork_demand(c, m) / (float)replicas;
        }
    }
    for (uint32_t loads = 0; loads < c->s->limits.workers && out.n + FLEET_CENTRAL_ROOM < max; loads++) {
        uint32_t best = FLEET_NONE;
        float most = 0;
        for (uint32_t m = 0; m < c->s->limits.models; m++) {
            float priority = c->models[m].queue.n ? clockwork_priority(c, m) : 0;
            if (priority > most) most = priority, best = m;
        }
        if (best == FLEET_NONE) break;
        uint32_t before = out.n;
        clockwork_load(c, best, now_ns, &out);
        if (out.n == before) break;
    }
    return out.n;
}
