/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: the simulated world: made, run event by event, and what came of it. */
#include "src/fleet/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/sim/world.h"

enum { WORLD_ALIGN = 64 };

void sim_defaults(struct sim_options *o)
{
    *o = (struct sim_options){
        .policy = SIM_LEASES,
        .seed = 1,
        .workers = 10,
        .models = 100,
        .requests = 1000000,
        .rate = 5000,
        .skew = 0.9,
        .day_s = 60,
        .deadline_ns = 25000000,
        .exec_ns = 2730000, /* resnet50 on a V100, as Clockwork measured it */
        .marginal = 0.3,
        .pages = 7,
        .gpu_pages = 2000,
        .host_pages = 1 << 20,
        .page_ns = 1300000, /* 12.9 GB/s */
        .hop_ns = 10000,
        .jitter_ns = 3000,
        .noise = 0.01,
        .clock_error_ns = 20000,
        .round_ns = 20000000,
        .ahead_ns = 5000000,
        .defer = 0,
        .spills = 1,
        .fault_s = 1,
        .warm_ns = 1000000000,
        .prewarm = true,
    };
}

/* ---- making it */

static void *world_array(size_t n, size_t size)
{
    void *p = NULL;
    size_t bytes = (n * size + WORLD_ALIGN) / WORLD_ALIGN * WORLD_ALIGN;
    if (posix_memalign(&p, WORLD_ALIGN, bytes)) return NULL;
    return memset(p, 0, bytes);
}

static void world_model(struct sim_world *w, uint32_t i)
{
    const struct sim_options *o = &w->o;
    struct fleet_model *m = &w->state->models[i];
    struct sim_model *s = &w->models[i];
    double exec = (double)o->exec_ns, marginal = o->marginal;
    m->pages = o->pages;
    if (o->zoo) {
        exec *= exp2(4 * sim_unit(&w->random) - 2);
        marginal *= exp2(2 * sim_unit(&w->random) - 1);
        m->pages = 2 + sim_below(&w->random, 39);
    }
    for (int k = 0; k < FLEET_SIZES; k++) m->exec_ns[k] = (int64_t)(exec * (1 + marginal * ((1 << k) - 1)));
    m->min_replicas = o->replicas;
    m->load_ns = o->page_ns * m->pages;
    m->disk_ns = o->disk_page_ns * m->pages;
    GW_ASSERT(fleet_profile_ok(m));
    s->deadline_ns = o->deadline_factor > 0 ? (int64_t)(o->deadline_factor * exec) : o->deadline_ns;
    if (sim_unit(&w->random) < o->tight) s->deadline_ns = o->tight_ns;
    s->waiting = FLEET_QUEUE_EMPTY;
    memset(s->admitted, FLEET_ALL, sizeof s->admitted);
    w->state->demand[i].class[0].deadline_ns = s->deadline_ns;
    w->state->demand[i].class[1].deadline_ns = 4 * s->deadline_ns;
}

/* Places what the mean rates ask for, as if the planner had had time. */
static void world_prewarm(struct sim_world *w)
{
    struct fleet_tuning t = w->tuning;
    t.leases = false;
    t.worker_loads = t.round_loads = 1 << 20;
    for (uint32_t i = 0; i < w->o.models; i++) {
        struct fleet_demand *d = &w->state->demand[i];
        for (int k = 0; k < FLEET_WINDOWS; k++) d->rate[k] = (float)w->models[i].rate;
        d->class[0].rate = (float)(w->models[i].rate * (1 - w->o.slack));
        d->class[1].rate = (float)(w->models[i].rate * w->o.slack);
    }
    for (uint32_t n = 1, rounds = 0; n && rounds < 64; rounds++) {
        n = fleet_plan(w->state, &t, 0, w->actions, SIM_MAX_ACTIONS);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t place = w->actions[i].place;
            GW_ASSERT(w->actions[i].kind == FLEET_LOAD);
            fleet_loaded(w->state, place, true, 0);
            w->places[place].where = FLEET_GPU;
            w->places[place].in_host = true;
            w->workers[w->actions[i].worker].gpu_used += w->state->models[w->actions[i].model].pages;
        }
    }
}

static bool world_memory(struct sim_world *w)
{
    const struct sim_options *o = &w->o;
    struct fleet_limits l = {o->workers, o->models, 64 * o->workers + (8 + o->replicas) * o->models};
    if (l.places > (uint64_t)o->workers * o->models) l.places = o->workers * o->models;
    bool deferred = o->policy == SIM_DEFERRED;
    struct fleet_central_options c = {deferred ? &fleet_deferred : &fleet_clockwork, o->ahead_ns, sim_way(w)};
    if (deferred) c.ahead_ns = 2 * sim_way(w);
    w->request_max = (uint32_t)(o->rate * 2) + 100000;
    void *state = world_array(1, fleet_state_size(&l));
    w->workers = world_array(l.workers, sizeof *w->workers);
    w->models = world_array(l.models, sizeof *w->models);
    w->places = world_array(l.places, sizeof *w->places);
    w->requests = world_array(w->request_max, sizeof *w->requests);
    w->links = world_array(w->request_max, sizeof *w->links);
    w->actions = world_array(SIM_MAX_ACTIONS, sizeof *w->actions);
    w->fenwick = world_array(l.models + 1, sizeof *w->fenwick);
    void *central = o->policy == SIM_LEASES ? NULL : world_array(1, fleet_central_size(&l, w->request_max));
    w->state = state;
    w->central = central;
    bool ok =
        state && w->workers && w->models && w->places && w->requests && w->links && w->actions && w->fenwick;
    if (!ok || (o->policy != SIM_LEASES && !central)) return false;
    w->state = fleet_state_init(state, &l);
    if (central) w->central = fleet_central_init(central, w->state, w->links, w->request_max, &c);
    return true;
}

static void world_start(struct sim_world *w)
{
    const struct sim_options *o = &w->o;
    w->random.state = (o->seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    w->load.state = (o->seed + 1) * UINT64_C(0xd1342543de82ef95);
    w->message_free = FLEET_NONE;
    w->central_wake_ns = INT64_MAX;
    fleet_tuning_default(&w->tuning);
    w->tuning.spills = o->spills;
    w->tuning.leases = !w->central;
    for (uint32_t i = 0; i < w->request_max; i++)
        w->links[i].next = i + 1 < w->request_max ? i + 1 : FLEET_NONE;
    for (uint32_t i = 0; i < w->state->limits.places; i++) {
        w->places[i] = (struct sim_place){.queue = FLEET_QUEUE_EMPTY, .max_batch = 1};
        w->places[i].queued_at = w->places[i].leased_at = FLEET_NONE;
    }
    for (uint32_t i = 0; i < o->workers; i++) {
        struct fleet_worker *b = &w->state->workers[i];
        b->health = FLEET_ACTIVE;
        b->gpu_pages = o->gpu_pages;
        b->host_pages = o->host_pages;
        b->slots = 8192;
        b->clock_error_ns = o->clock_error_ns;
        w->workers[i].running = FLEET_NONE;
        w->workers[i].timer_ns = INT64_MAX;
        w->workers[i].clock_ns = (int64_t)((2 * sim_unit(&w->random) - 1) * (double)o->clock_error_ns);
    }
    for (uint32_t i = 0; i < o->models; i++) world_model(w, i);
    sim_load_start(w);
    if (o->prewarm) world_prewarm(w);
    sim_control_round(w, false);
    if (o->faults) sim_at(w, o->warm_ns, EV_FAULT, 0, 0);
}

/* ---- running it */

static void world_event(struct sim_world *w, const struct fleet_moment *m)
{
    switch ((enum sim_kind)m->kind) {
    case EV_DELIVER:
        if (w->central)
            sim_control_request(w, m->a);
        else
            sim_device_deliver(w, m->a);
        break;
    case EV_ENDED: sim_worker_ended(w, m->a, m->b); break;
    case EV_TIMER:
        if (w->workers[m->a].timer_ns <= w->now_ns) w->workers[m->a].timer_ns = INT64_MAX;
        if (w->central)
            sim_worker_plan(w, m->a);
        else
            sim_device_look(w, m->a);
        break;
    case EV_ACTION: sim_worker_action(w, m->a); break;
    case EV_LOADED: sim_worker_loaded(w, m->a); break;
    case EV_RESULT: sim_control_result(w, m->a); break;
    case EV_DONE: sim_control_done(w, m->a, m->b); break;
    case EV_ROUND: sim_control_round(w, m->b); break;
    case EV_WAKE: sim_control_wake(w); break;
    case EV_RATE: sim_load_rate(w, m->a); break;
    case EV_LOST:
        if (!w->central) sim_client_left(w, m->a);
        sim_finish(w, m->a, SIM_LOST, w->now_ns);
        break;
    case EV_FAULT: sim_fault(w); break;
    case EV_HEAL: sim_heal(w, m->a, m->b); break;
    case EV_EXPIRE: sim_control_expire(w, m->a); break;
    }
}

static void world_free(struct sim_world *w)
{
    for (uint32_t i = 0; w->models && i < w->o.models; i++)
        free(w->models[i].leases[0].place), free(w->models[i].leases[1].place);
    for (uint32_t i = 0; w->workers && i < w->o.workers; i++) free(w->workers[i].busy);
    void *all[] = {w->state, w->central, w->workers, w->models,   w->places, w->requests,
                   w->links, w->actions, w->fenwick, w->messages, w->heap.m};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static void world_result(struct sim_world *w)
{
    struct sim_result *r = w->result;
    double busy = 0;
    for (uint32_t i = 0; i < w->o.workers; i++) busy += w->workers[i].busy_ns;
    r->busy = w->now_ns ? busy / (double)w->now_ns / w->o.workers : 0;
    r->seconds = (double)(w->last_arrival_ns - w->o.warm_ns) * 1e-9;
    r->error_p99 = (double)sim_quantile(r->error, 0.99) * 1e-9;
    r->hash = w->hash;
}

int sim_run(const struct sim_options *o, struct sim_result *out)
{
    struct sim_world *w = world_array(1, sizeof *w);
    *out = (struct sim_result){0};
    if (!w) return -ENOMEM;
    w->o = *o;
    w->result = out;
    int err = world_memory(w) ? 0 : -ENOMEM;
    if (!err) world_start(w);
    while (!err && (w->open || w->arrived < o->requests)) {
        if (w->full) {
            err = -ENOBUFS;
        } else if (w->next_arrival_ns <= w->heap.m[0].at_ns) {
            w->now_ns = w->last_arrival_ns = w->next_arrival_ns;
            uint32_t model = sim_load_pick(w);
            sim_load_next(w);
            sim_client_request(w, model);
            if (w->arrived >= o->requests) w->next_arrival_ns = INT64_MAX;
        } else {
            struct fleet_moment m = fleet_heap_pop(&w->heap);
            w->now_ns = m.at_ns;
            world_event(w, &m);
            if (o->strict) GW_CHECK(sim_check(w));
        }
    }
    if (!err) world_result(w);
    world_free(w);
    free(w);
    return err;
}
