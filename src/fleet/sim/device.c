/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: a worker's device with leases: it admits what it can do in time, and makes batches that begin
 * late. */
#include <stdlib.h>

#include "src/fleet/sim/world.h"

static void device_enqueue(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    struct sim_worker *k = &w->workers[w->state->places[place].worker];
    if (p->queued_at != FLEET_NONE) return;
    if (k->nbusy == k->most_busy) {
        k->most_busy = k->most_busy ? 2 * k->most_busy : 8;
        k->busy = realloc(k->busy, k->most_busy * sizeof *k->busy);
        if (!k->busy) abort(); /* the simulator is a program of tests */
    }
    p->queued_at = k->nbusy;
    k->busy[k->nbusy++] = place;
}

static void device_dequeue(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    struct sim_worker *k = &w->workers[w->state->places[place].worker];
    if (p->queued_at == FLEET_NONE) return;
    uint32_t last = k->busy[--k->nbusy];
    k->busy[p->queued_at] = last;
    w->places[last].queued_at = p->queued_at;
    p->queued_at = FLEET_NONE;
}

/* Whether the lease lets one more in: it is in force, and has budget. */
static bool device_lease(const struct sim_world *w, struct sim_place *p, int64_t clock_ns)
{
    if (p->where != FLEET_GPU || p->evict || p->leased_at == FLEET_NONE || clock_ns > p->until_ns)
        return false;
    p->tokens += p->rate * (double)(w->now_ns - p->refilled_ns) * 1e-9;
    if (p->tokens > p->slots) p->tokens = p->slots;
    p->refilled_ns = w->now_ns;
    if (p->tokens < 1 || p->queue.n >= p->slots) return false;
    p->tokens--;
    return true;
}

/* When a request that comes now will have ended. If its client can send it elsewhere: behind all that must
 * begin sooner. If not: at the soonest, behind what runs and what its own model has before it, because
 * others may be refused. */
static int64_t device_estimate(const struct sim_world *w, uint32_t request, int64_t deadline_ns)
{
    const struct sim_request *r = &w->requests[request];
    const struct sim_place *p = &w->places[r->place];
    const struct sim_worker *k = &w->workers[w->state->places[r->place].worker];
    const struct fleet_model *m = &w->state->models[r->model];
    int64_t at = k->running != FLEET_NONE && k->expected_ns > w->now_ns ? k->expected_ns : w->now_ns;
    for (uint32_t i = 0; !r->last && i < k->nbusy; i++) {
        const struct sim_place *other = &w->places[k->busy[i]];
        if (other == p || w->links[other->queue.head].deadline_ns > deadline_ns) continue;
        uint32_t n = other->queue.n < other->max_batch ? other->queue.n : other->max_batch;
        at += fleet_exec(&w->state->models[w->state->places[k->busy[i]].model], n);
    }
    uint32_t whole = p->queue.n / p->max_batch, rest = p->queue.n % p->max_batch + 1;
    return at + whole * fleet_exec(m, p->max_batch) + fleet_exec(m, rest);
}

void sim_device_deliver(struct sim_world *w, uint32_t request)
{
    struct sim_request *r = &w->requests[request];
    struct sim_place *p = &w->places[r->place];
    if (r->life != p->life) {
        sim_client_refused(w, request);
        return;
    }
    uint32_t worker = w->state->places[r->place].worker;
    struct sim_worker *k = &w->workers[worker];
    if (k->dead || k->cut) {
        sim_lose(w, request);
        return;
    }
    /* The device sees the client's deadline by its own clock, and leaves room for the answer. */
    int64_t deadline = r->deadline_ns - sim_way(w) - k->clock_ns - w->o.clock_error_ns;
    if (!device_lease(w, p, w->now_ns + k->clock_ns) || device_estimate(w, request, deadline) > deadline) {
        sim_client_refused(w, request);
        return;
    }
    w->links[request].deadline_ns = deadline;
    fleet_queue_add(&p->queue, w->links, request);
    device_enqueue(w, r->place);
    sim_device_look(w, worker);
}

void sim_device_flush(struct sim_world *w, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    while (p->queue.n) sim_client_refused(w, fleet_queue_take(&p->queue, w->links));
    device_dequeue(w, place);
}

/* When the place's batch should begin: now if one more could not join it, else a part of the way to that
 * moment. */
static int64_t device_begin(const struct sim_world *w, uint32_t place)
{
    const struct sim_place *p = &w->places[place];
    const struct fleet_model *m = &w->state->models[w->state->places[place].model];
    if (p->queue.n >= p->max_batch) return w->now_ns;
    int64_t came = w->requests[p->queue.head].start_ns;
    int64_t last = w->links[p->queue.head].deadline_ns - fleet_exec(m, p->queue.n + 1);
    return came + (int64_t)(w->o.defer * (double)(last - came));
}

static void device_run(struct sim_world *w, uint32_t worker, uint32_t place)
{
    struct sim_place *p = &w->places[place];
    struct sim_worker *k = &w->workers[worker];
    const struct fleet_model *m = &w->state->models[w->state->places[place].model];
    k->nbatch = fleet_queue_batch(&p->queue, w->links, m, w->now_ns, p->max_batch);
    for (uint32_t i = 0; i < k->nbatch; i++) k->batch[i] = fleet_queue_take(&p->queue, w->links);
    if (!p->queue.n) device_dequeue(w, place);
    sim_worker_start(w, worker, place);
}

/* A batch that could begin now. */
struct device_batch {
    uint32_t place, n;
    int64_t took_ns, latest_ns;
};

static struct device_batch device_batch(const struct sim_world *w, uint32_t place)
{
    const struct sim_place *p = &w->places[place];
    const struct fleet_model *m = &w->state->models[w->state->places[place].model];
    uint32_t n = fleet_queue_batch(&p->queue, w->links, m, w->now_ns, p->max_batch);
    int64_t took = fleet_exec(m, n);
    return (struct device_batch){place, n, took, w->links[p->queue.head].deadline_ns - took};
}

/* Whether a should run before b. The one that must begin first does; but if the other one would be too
 * late then, the one that serves more requests in its time. */
static bool device_before(const struct sim_world *w, const struct device_batch *a,
                          const struct device_batch *b)
{
    bool sooner = a->latest_ns < b->latest_ns;
    const struct device_batch *first = sooner ? a : b, *other = sooner ? b : a;
    if (w->now_ns + first->took_ns <= other->latest_ns) return sooner;
    int64_t mine = (int64_t)a->n * b->took_ns, its = (int64_t)b->n * a->took_ns;
    return mine != its ? mine > its : sooner;
}

void sim_device_look(struct sim_world *w, uint32_t worker)
{
    struct sim_worker *k = &w->workers[worker];
    int64_t soonest = INT64_MAX;
    struct device_batch best = {.place = FLEET_NONE};
    if (k->dead || k->running != FLEET_NONE) return;
    for (uint32_t i = k->nbusy;
         i-- > 0;) { /* backwards: an emptied one is replaced by one that was looked at */
        uint32_t place = k->busy[i];
        struct sim_place *p = &w->places[place];
        const struct fleet_model *m = &w->state->models[w->state->places[place].model];
        while (fleet_queue_give_up(&p->queue, w->links, m, w->now_ns, p->max_batch)) {
            sim_client_refused(w, fleet_queue_take(&p->queue, w->links));
        }
        if (!p->queue.n) {
            device_dequeue(w, place);
            continue;
        }
        int64_t begin = device_begin(w, place);
        if (begin > w->now_ns) {
            soonest = begin < soonest ? begin : soonest;
            continue;
        }
        struct device_batch b = device_batch(w, place);
        if (best.place == FLEET_NONE || device_before(w, &b, &best)) best = b;
    }
    if (best.place != FLEET_NONE) {
        device_run(w, worker, best.place);
    } else if (soonest < k->timer_ns) {
        k->timer_ns = soonest;
        sim_at(w, soonest, EV_TIMER, worker, 0);
    }
}
