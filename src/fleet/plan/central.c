/* SPDX-License-Identifier: Apache-2.0 */
/* central.c: what policies that plan single requests have in common: requests that wait, and when to look
 * at which GPU. */
#include "src/fleet/plan/central.h"

#include <string.h>

#include "gpuwire/detail/assert.h"

enum { CENTRAL_ALIGN = 64, CENTRAL_ROOM = 2 * FLEET_CENTRAL_ROOM /* actions that one look may need */ };

static size_t central_round(size_t n)
{
    return (n + CENTRAL_ALIGN - 1) / CENTRAL_ALIGN * CENTRAL_ALIGN;
}

static size_t central_moments(const struct fleet_limits *l, uint32_t requests)
{
    return (size_t)l->workers * 64 + l->models + 4 * (size_t)requests;
}

size_t fleet_central_size(const struct fleet_limits *l, uint32_t requests)
{
    return central_round(sizeof(struct fleet_central)) +
           central_round(l->models * sizeof(struct fleet_central_model)) +
           central_round(l->workers * sizeof(struct fleet_central_worker)) +
           central_round(l->places * sizeof(struct fleet_central_place)) +
           central_round(l->workers * sizeof(float)) +
           central_round(central_moments(l, requests) * sizeof(struct fleet_moment));
}

struct fleet_central *fleet_central_init(void *memory, struct fleet_state *s, struct fleet_link *links,
                                         uint32_t requests, const struct fleet_central_options *o)
{
    const struct fleet_limits *l = &s->limits;
    uint8_t *at = memory;
    memset(memory, 0, fleet_central_size(l, requests));
    struct fleet_central *c = memory;
    c->o = *o;
    c->s = s;
    c->links = links;
    at += central_round(sizeof *c);
    c->models = (void *)at;
    at += central_round(l->models * sizeof *c->models);
    c->workers = (void *)at;
    at += central_round(l->workers * sizeof *c->workers);
    c->places = (void *)at;
    at += central_round(l->places * sizeof *c->places);
    c->work = (void *)at;
    at += central_round(l->workers * sizeof *c->work);
    c->heap.m = (void *)at;
    c->heap.max = (uint32_t)central_moments(l, requests);
    for (uint32_t i = 0; i < l->models; i++) {
        c->models[i] = (struct fleet_central_model){FLEET_QUEUE_EMPTY, INT64_MAX};
    }
    for (uint32_t i = 0; i < l->workers; i++) c->workers[i].active = FLEET_NONE;
    return c;
}

static void central_link(struct fleet_central *c, uint32_t place)
{
    struct fleet_central_place *p = &c->places[place];
    struct fleet_central_worker *w = &c->workers[c->s->places[place].worker];
    if (p->linked) return;
    p->linked = true;
    p->prev = FLEET_NONE;
    p->next = w->active;
    if (p->next != FLEET_NONE) c->places[p->next].prev = place;
    w->active = place;
}

static void central_unlink(struct fleet_central *c, uint32_t place)
{
    struct fleet_central_place *p = &c->places[place];
    if (!p->linked) return;
    p->linked = false;
    if (p->next != FLEET_NONE) c->places[p->next].prev = p->prev;
    *(p->prev == FLEET_NONE ? &c->workers[c->s->places[place].worker].active : &c->places[p->prev].next) =
        p->next;
}

static void central_wake(struct fleet_central *c, int64_t at_ns, uint32_t kind, uint32_t which)
{
    GW_ASSERT(c->heap.n < c->heap.max);
    fleet_heap_push(&c->heap, (struct fleet_moment){.at_ns = at_ns, .kind = kind, .a = which});
}

/* The model is looked at when its batch may begin. If it may already, then at `late`: it waits for a GPU,
 * which is looked at when it is free. */
static void central_wake_model(struct fleet_central *c, uint32_t model, int64_t now_ns, int64_t late)
{
    int64_t at = c->o.policy->begin ? c->o.policy->begin(c, model) : now_ns;
    if (at <= now_ns) at = late > now_ns ? late : now_ns;
    if (at >= c->models[model].wake_ns) return;
    c->models[model].wake_ns = at;
    central_wake(c, at, FLEET_WAKE_MODEL, model);
}

/* The same after a look: requests that are left are refused when they are too late. */
static void central_wake_rest(struct fleet_central *c, uint32_t model, int64_t now_ns)
{
    const struct fleet_queue *q = &c->models[model].queue;
    if (q->n) central_wake_model(c, model, now_ns, c->links[q->head].deadline_ns);
}

void fleet_central_request(struct fleet_central *c, uint32_t request, uint32_t model, int64_t now_ns)
{
    struct fleet_queue *q = &c->models[model].queue;
    fleet_queue_add(q, c->links, request);
    for (uint32_t i = c->s->models[model].first; q->n == 1 && i != FLEET_NONE;
         i = c->s->places[i].next_of_model) {
        if (c->s->places[i].where == FLEET_GPU) central_link(c, i);
    }
    central_wake_model(c, model, now_ns, now_ns);
}

void fleet_central_place(struct fleet_central *c, uint32_t place, bool loaded)
{
    uint32_t model = c->s->places[place].model;
    if (!loaded) {
        central_unlink(c, place);
        return;
    }
    c->places[place].sent = 0;
    if (!c->models[model].queue.n) return;
    central_link(c, place);
    central_wake(c, c->workers[c->s->places[place].worker].free_ns, FLEET_WAKE_WORKER,
                 c->s->places[place].worker);
}

void fleet_central_ended(struct fleet_central *c, uint32_t worker, uint32_t place, int64_t free_ns)
{
    struct fleet_central_worker *w = &c->workers[worker];
    if (c->places[place].sent) c->places[place].sent--;
    if (w->sent) w->sent--;
    if (w->sent && free_ns < w->free_ns) return;
    w->free_ns = free_ns;
    central_wake(c, free_ns - c->o.ahead_ns, FLEET_WAKE_WORKER, worker);
}

/* No request of the model waits any more. */
static void central_quiet(struct fleet_central *c, uint32_t model)
{
    for (uint32_t i = c->s->models[model].first; i != FLEET_NONE; i = c->s->places[i].next_of_model) {
        central_unlink(c, i);
    }
}

void fleet_central_refuse(struct fleet_central *c, uint32_t model, struct fleet_central_out *out)
{
    struct fleet_queue *q = &c->models[model].queue;
    struct fleet_action *a = out->n ? &out->a[out->n - 1] : NULL;
    if (!a || a->kind != FLEET_REFUSE || a->model != model || a->batch == FLEET_MAX_BATCH) {
        a = &out->a[out->n++];
        *a = (struct fleet_action){
            .kind = FLEET_REFUSE, .model = model, .worker = FLEET_NONE, .place = FLEET_NONE};
    }
    a->request[a->batch++] = fleet_queue_take(q, c->links);
    if (!q->n) central_quiet(c, model);
}

/* Takes n requests of a place's model, and says that its worker shall run them within the window. */
static void central_send(struct fleet_central *c, uint32_t place, uint32_t n, int64_t start_ns,
                         struct fleet_central_out *out)
{
    struct fleet_place *p = &c->s->places[place];
    const struct fleet_model *m = &c->s->models[p->model];
    struct fleet_queue *q = &c->models[p->model].queue;
    struct fleet_central_worker *w = &c->workers[p->worker];
    struct fleet_action *a = &out->a[out->n++];
    *a = (struct fleet_action){
        .kind = FLEET_INFER, .batch = (uint8_t)n, .worker = p->worker, .model = p->model};
    a->place = place;
    a->earliest_ns = start_ns;
    a->latest_ns = c->links[q->head].deadline_ns - fleet_exec(m, n);
    for (uint32_t i = 0; i < n; i++) a->request[i] = fleet_queue_take(q, c->links);
    p->used_ns = start_ns;
    c->places[place].sent++;
    w->sent++;
    w->free_ns = start_ns + fleet_exec(m, n);
    central_wake(c, w->free_ns - c->o.ahead_ns, FLEET_WAKE_WORKER, p->worker);
    if (!q->n) central_quiet(c, p->model);
}

/* The GPU that has the model and will be free first; FLEET_NONE: none has it. */
static uint32_t central_worker(const struct fleet_central *c, uint32_t model)
{
    uint32_t best = FLEET_NONE;
    for (uint32_t i = c->s->models[model].first; i != FLEET_NONE; i = c->s->places[i].next_of_model) {
        const struct fleet_place *p = &c->s->places[i];
        if (!c->places[i].linked) continue;
        bool sooner = best == FLEET_NONE || c->workers[p->worker].free_ns < c->workers[best].free_ns;
        if (sooner) best = p->worker;
    }
    return best;
}

/* Gives a worker one batch: the one that must begin first. False: there is none for it. */
static bool central_dispatch(struct fleet_central *c, uint32_t worker, int64_t now_ns,
                             struct fleet_central_out *out)
{
    const struct fleet_central_worker *w = &c->workers[worker];
    struct fleet_central_times t = {now_ns, now_ns + c->o.hop_ns, w->free_ns};
    int64_t first = INT64_MAX;
    uint32_t best = FLEET_NONE, size = 0;
    if (t.start_ns < t.soonest_ns) t.start_ns = t.soonest_ns;
    for (uint32_t i = w->active, next; i != FLEET_NONE; i = next) {
        next = c->places[i].next; /* refusals may take this place off the list */
        uint32_t model = c->s->places[i].model, n = c->o.policy->batch(c, model, &t, out);
        if (!n) continue;
        int64_t latest =
            c->links[c->models[model].queue.head].deadline_ns - fleet_exec(&c->s->models[model], n);
        if (latest < first) first = latest, best = i, size = n;
    }
    if (best == FLEET_NONE) return false;
    central_send(c, best, size, t.start_ns, out);
    return true;
}

/* Gives a worker batches until it has enough. */
static void central_look(struct fleet_central *c, uint32_t worker, int64_t now_ns,
                         struct fleet_central_out *out)
{
    while (c->workers[worker].free_ns - now_ns <= c->o.ahead_ns && out->n + FLEET_CENTRAL_ROOM < out->max) {
        if (!central_dispatch(c, worker, now_ns, out)) return;
        central_wake_rest(c, out->a[out->n - 1].model, now_ns);
    }
}

uint32_t fleet_central_step(struct fleet_central *c, int64_t now_ns, struct fleet_action *a, uint32_t max)
{
    struct fleet_central_out out = {a, 0, max};
    while (c->heap.n && c->heap.m[0].at_ns <= now_ns && out.n + CENTRAL_ROOM <= max) {
        struct fleet_moment m = fleet_heap_pop(&c->heap);
        if (m.kind == FLEET_WAKE_WORKER) {
            central_look(c, m.a, now_ns, &out);
            continue;
        }
        struct fleet_central_model *model = &c->models[m.a];
        if (m.at_ns != model->wake_ns) continue; /* another moment has taken this one's place */
        model->wake_ns = INT64_MAX;
        /* Nothing will do these any more, so that a model without a GPU keeps no requests. */
        while (model->queue.n && out.n + FLEET_CENTRAL_ROOM < max &&
               c->links[model->queue.head].deadline_ns <
                   now_ns + c->o.hop_ns + c->s->models[m.a].exec_ns[0]) {
            fleet_central_refuse(c, m.a, &out);
        }
        uint32_t worker = central_worker(c, m.a);
        if (worker != FLEET_NONE) central_look(c, worker, now_ns, &out);
        central_wake_rest(c, m.a, now_ns);
    }
    return out.n;
}

int64_t fleet_central_wake(const struct fleet_central *c)
{
    return c->heap.n ? c->heap.m[0].at_ns : INT64_MAX;
}
