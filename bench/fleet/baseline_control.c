/* SPDX-License-Identifier: Apache-2.0 */
/* baseline_control.c: the controller of the baseline. Requests wait here with their tensors until the policy
 * sends them to a worker. When a worker dies, it queues that worker's requests again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

#include "bench/fleet/baseline.h"
#include "src/fleet/plan/central.h"
#include "src/server/wire/wire.h"

enum { BASE_ACTIONS = 1024 };
#define BASE_ROUND (10 * BASELINE_MS)

struct base_peer {
    struct base *base;
    uint32_t worker; /* FLEET_NONE: a client, or a worker that has not said what it has */
};

struct base_request {
    struct fleet_conn *client; /* NULL: it has gone */
    uint64_t id;
    uint32_t model, next_free;
    int64_t arrived_at;
    uint8_t *tensors; /* NULL: this entry is free */
};

/* An action that a worker has not ended. */
struct base_flight {
    uint32_t kind, worker, place, model, n, next_free;
    uint32_t life; /* in the seq, so that an old answer is known */
    uint32_t request[FLEET_MAX_BATCH];
    bool used;
};

struct base {
    const struct baseline_opts *o;
    struct fleet_loop *loop;
    struct base_peer stranger; /* of connections that are not open yet */
    struct fleet_state *state;
    struct fleet_central *central;
    struct fleet_link links[BASELINE_REQUESTS];
    struct base_request requests[BASELINE_REQUESTS];
    struct base_flight *flights;
    uint32_t nflights, free_request, free_flight;
    struct fleet_conn **workers;
    struct fleet_timer wake, round;
    struct fleet_action actions[BASE_ACTIONS];
};

/* ---- requests and flights */

static void base_answer(struct base *b, uint32_t request, struct fleet_answer a, const void *tensors)
{
    struct base_request *r = &b->requests[request];
    a.id = r->id;
    a.arrived_at = r->arrived_at;
    if (!a.done_at) a.started_at = a.done_at = fleet_loop_now(b->loop);
    if (r->client) fleet_send(r->client, FLEET_ANSWER, 0, &a, sizeof a, tensors, a.bytes, NULL);
    free(r->tensors);
    r->tensors = NULL;
    r->next_free = b->free_request;
    b->free_request = request;
}

static struct base_flight *base_flight(struct base *b, const struct fleet_action *a)
{
    struct base_flight *f = &b->flights[b->free_flight]; /* there is one for each request and place */
    b->free_flight = f->next_free;
    uint32_t life = f->life + 1;
    *f = (struct base_flight){.kind = a->kind, .worker = a->worker, .place = a->place, .model = a->model};
    f->n = a->kind == FLEET_INFER ? a->batch : 0;
    memcpy(f->request, a->request, sizeof f->request);
    f->life = life;
    f->used = true;
    return f;
}

static uint64_t base_seq(const struct base *b, const struct base_flight *f)
{
    return (uint64_t)f->life << 32 | (uint32_t)(f - b->flights);
}

static void base_landed(struct base *b, struct base_flight *f)
{
    f->used = false;
    f->next_free = b->free_flight;
    b->free_flight = (uint32_t)(f - b->flights);
}

/* That worker's flight of this seq, or NULL. */
static struct base_flight *base_find(struct base *b, uint64_t seq, uint32_t worker)
{
    uint32_t at = (uint32_t)seq;
    struct base_flight *f = at < b->nflights ? &b->flights[at] : NULL;
    return f && f->used && f->life == seq >> 32 && f->worker == worker ? f : NULL;
}

/* ---- what the policy decides */

static void base_infer(struct base *b, const struct fleet_action *a)
{
    struct fleet_conn *c = b->workers[a->worker];
    struct base_flight *f = base_flight(b, a);
    int64_t offset = 0, error;
    fleet_conn_clock(c, &offset, &error);
    struct fleet_batch h = {.model = a->model, .samples = a->batch, .bytes = b->o->profile.request_bytes};
    h.earliest_at = a->earliest_ns + offset;
    h.latest_at = a->latest_ns + offset;
    /* If the connection fails, base_closed() queues the requests again. */
    for (; h.sample < h.samples; h.sample++)
        fleet_send(c, FLEET_BATCH, base_seq(b, f), &h, sizeof h, b->requests[a->request[h.sample]].tensors,
                   h.bytes, NULL);
}

static void base_move(struct base *b, const struct fleet_action *a)
{
    struct fleet_act m = {.term = 1, .kind = a->kind, .model = a->model, .latest_at = INT64_MAX};
    struct base_flight *f = base_flight(b, a);
    fleet_send(b->workers[a->worker], FLEET_ACTION, base_seq(b, f), &m, sizeof m, NULL, 0, NULL);
}

static void base_step(void *ctx)
{
    struct base *b = ctx;
    int64_t now = fleet_loop_now(b->loop);
    while (fleet_central_wake(b->central) <= now) {
        uint32_t n = fleet_central_step(b->central, now, b->actions, BASE_ACTIONS);
        for (uint32_t i = 0; i < n; i++) {
            const struct fleet_action *a = &b->actions[i];
            if (a->kind == FLEET_INFER) base_infer(b, a);
            for (uint32_t k = 0; a->kind == FLEET_REFUSE && k < a->batch; k++)
                base_answer(b, a->request[k], (struct fleet_answer){.status = GW_SERVE_LATE}, NULL);
        }
    }
    int64_t next = fleet_central_wake(b->central);
    if (next != INT64_MAX && fleet_timer_set(b->loop, &b->wake, next, base_step, b)) abort();
}

static void base_place(struct base *b)
{
    uint32_t n = fleet_clockwork_round(b->central, fleet_loop_now(b->loop), b->actions, BASE_ACTIONS);
    for (uint32_t i = 0; i < n; i++) base_move(b, &b->actions[i]);
}

static void base_round(void *ctx)
{
    struct base *b = ctx;
    base_place(b);
    if (fleet_timer_set(b->loop, &b->round, fleet_loop_now(b->loop) + BASE_ROUND, base_round, b)) abort();
}

/* The model is on a GPU, or on its way to one. */
static bool base_has(const struct base *b, uint32_t model)
{
    const struct fleet_place *p = b->state->places;
    for (uint32_t i = b->state->models[model].first; i != FLEET_NONE; i = p[i].next_of_model)
        if (p[i].where == FLEET_GPU || p[i].where == FLEET_LOADING) return true;
    return false;
}

/* ---- clients */

static void base_refuse(struct fleet_conn *c, uint64_t id, enum gw_serve_status status)
{
    struct fleet_answer a = {.id = id, .status = status};
    fleet_send(c, FLEET_ANSWER, 0, &a, sizeof a, NULL, 0, NULL);
}

static void base_request(struct base *b, struct fleet_conn *c, const struct fleet_request *q, uint32_t bytes)
{
    uint32_t at = b->free_request;
    int64_t now = fleet_loop_now(b->loop);
    if (q->rows != 1 || q->lease >= b->o->models || q->bytes != b->o->profile.request_bytes ||
        bytes - sizeof *q != q->bytes) {
        base_refuse(c, q->id, GW_SERVE_BAD_REQUEST);
        return;
    }
    uint8_t *tensors = at == FLEET_NONE ? NULL : malloc(q->bytes);
    if (!tensors) {
        base_refuse(c, q->id, GW_SERVE_OVER_BUDGET);
        return;
    }
    struct base_request *r = &b->requests[at];
    b->free_request = r->next_free;
    memcpy(tensors, q + 1, q->bytes);
    *r = (struct base_request){
        .client = c, .id = q->id, .model = q->lease, .arrived_at = now, .tensors = tensors};
    bool timed = q->budget_ns && q->budget_ns < (uint64_t)BASELINE_NEVER;
    b->links[at].deadline_ns =
        now + (timed ? (int64_t)q->budget_ns : BASELINE_NEVER) - b->o->hop_us * INT64_C(1000);
    fleet_central_request(b->central, at, r->model, now);
    if (b->central->models[r->model].queue.n == 1 && !base_has(b, r->model)) base_place(b);
    base_step(b);
}

/* ---- workers */

static void base_worker(struct base_peer *p, struct fleet_conn *c, const struct fleet_hello_worker *w)
{
    struct base *b = p->base;
    uint32_t i = 0;
    if (p->worker != FLEET_NONE) return; /* it has said so before */
    while (i < b->o->workers && b->workers[i]) i++;
    if (i == b->o->workers) {
        fleet_conn_close(c, -1, "there are as many workers as --workers says");
        free(p);
        return;
    }
    p->worker = i;
    b->workers[i] = c;
    struct fleet_worker *s = &b->state->workers[i];
    s->gpu_pages = w->gpu_pages;
    s->host_pages = w->host_pages;
    s->health = FLEET_ACTIVE;
    printf("worker %u is there\n", i);
}

static void base_batched(struct base *b, uint32_t worker, uint64_t seq, const struct fleet_batched *r,
                         uint32_t bytes)
{
    struct base_flight *f = base_find(b, seq, worker);
    uint64_t each = b->o->profile.answer_bytes;
    bool done = r->outcome == FLEET_DONE;
    if (!f || f->kind != FLEET_INFER || f->n != r->samples || r->bytes != (done ? each : 0) ||
        bytes - sizeof *r != r->samples * r->bytes)
        return;
    const uint8_t *tensors = (const uint8_t *)(r + 1);
    struct fleet_answer a = {.status = done                           ? GW_SERVE_OK
                                       : r->outcome == FLEET_TOO_LATE ? GW_SERVE_LATE
                                                                      : GW_SERVE_FAILED,
                             .batch = f->n,
                             .started_at = r->began_at,
                             .done_at = r->ended_at,
                             .bytes = r->bytes};
    for (uint32_t i = 0; i < f->n; i++) base_answer(b, f->request[i], a, tensors + i * r->bytes);
    fleet_central_ended(b->central, worker, f->place, fleet_loop_now(b->loop));
    base_landed(b, f);
    base_step(b);
}

static void base_moved(struct base *b, uint32_t worker, uint64_t seq, const struct fleet_result *r)
{
    struct base_flight *f = base_find(b, seq, worker);
    if (!f || f->kind == FLEET_INFER) return;
    bool done = r->outcome == FLEET_DONE;
    if (f->kind == FLEET_LOAD) {
        fleet_loaded(b->state, f->place, done, fleet_loop_now(b->loop));
        if (done) fleet_central_place(b->central, f->place, true);
    } else {
        fleet_place_move(b->state, f->place, FLEET_HOST, fleet_loop_now(b->loop));
    }
    base_landed(b, f);
    base_step(b);
}

/* Its places are no more, and others serve what it had. */
static void base_worker_gone(struct base *b, uint32_t worker)
{
    const struct fleet_place *p = b->state->places;
    int64_t now = fleet_loop_now(b->loop);
    for (uint32_t i = b->state->workers[worker].first; i != FLEET_NONE; i = p[i].next_of_worker)
        fleet_central_place(b->central, i, false);
    fleet_worker_gone(b->state, worker);
    b->central->workers[worker].sent = 0;
    b->central->workers[worker].free_ns = now;
    b->workers[worker] = NULL;
    printf("worker %u is gone\n", worker);
    for (uint32_t i = 0; i < b->nflights; i++) {
        struct base_flight *f = &b->flights[i];
        if (!f->used || f->worker != worker) continue;
        for (uint32_t k = 0; k < f->n; k++) fleet_central_request(b->central, f->request[k], f->model, now);
        base_landed(b, f);
    }
    base_place(b);
    base_step(b);
}

/* ---- connections */

static void base_open(void *ctx, struct fleet_conn *c)
{
    struct base_peer *stranger = ctx, *p = malloc(sizeof *p);
    if (!p) abort();
    *p = (struct base_peer){stranger->base, FLEET_NONE};
    fleet_conn_set_ctx(c, p);
}

static void base_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct base_peer *p = ctx;
    struct base *b = p->base;
    bool client = fleet_conn_peer(c)->role == FLEET_IS_CLIENT;
    if (client && f->kind == FLEET_REQUEST) {
        const struct fleet_request *q = FLEET_BODY(struct fleet_request, f, body);
        if (q) base_request(b, c, q, f->bytes);
    } else if (!client && f->kind == FLEET_WORKER) {
        const struct fleet_hello_worker *w = FLEET_BODY(struct fleet_hello_worker, f, body);
        if (w) base_worker(p, c, w);
    } else if (p->worker != FLEET_NONE && f->kind == FLEET_RESULT) {
        const struct fleet_result *r = FLEET_BODY(struct fleet_result, f, body);
        if (r) base_moved(b, p->worker, f->seq, r);
    } else if (p->worker != FLEET_NONE && f->kind == FLEET_BATCHED) {
        const struct fleet_batched *r = FLEET_BODY(struct fleet_batched, f, body);
        if (r) base_batched(b, p->worker, f->seq, r, f->bytes);
    }
}

static void base_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct base_peer *p = ctx;
    struct base *b = p->base;
    (void)err;
    (void)why;
    if (p == &b->stranger) return;
    if (p->worker != FLEET_NONE) base_worker_gone(b, p->worker);
    for (uint32_t i = 0; i < BASELINE_REQUESTS; i++)
        if (b->requests[i].client == c) b->requests[i].client = NULL;
    free(p);
}

static const struct fleet_handler base_handler = {base_open, base_message, base_closed};

/* ---- its life */

static void *base_memory(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) abort();
    return p;
}

static void base_make(struct base *b, const struct baseline_opts *o)
{
    const struct fleet_limits limits = {o->workers, o->models, o->workers * o->models};
    const struct fleet_profile *f = &o->profile;
    b->o = o;
    b->stranger = (struct base_peer){b, FLEET_NONE};
    b->state = fleet_state_init(base_memory(fleet_state_size(&limits)), &limits);
    for (uint32_t i = 0; i < o->models; i++) {
        struct fleet_model *m = &b->state->models[i];
        m->pages = f->pages;
        memcpy(m->exec_ns, f->exec_ns, sizeof m->exec_ns);
        m->spread_ns = f->spread_ns;
        m->load_ns = f->load_ns;
        m->disk_ns = f->disk_ns;
    }
    const struct fleet_central_options c = {&fleet_clockwork, o->ahead_us * INT64_C(1000),
                                            o->hop_us * INT64_C(1000)};
    b->central = fleet_central_init(base_memory(fleet_central_size(&limits, BASELINE_REQUESTS)), b->state,
                                    b->links, BASELINE_REQUESTS, &c);
    b->nflights = BASELINE_REQUESTS + limits.places;
    b->flights = calloc(b->nflights, sizeof *b->flights);
    b->workers = calloc(o->workers, sizeof(struct fleet_conn *));
    if (!b->flights || !b->workers) abort();
    for (uint32_t i = 0; i < b->nflights; i++) b->flights[i].next_free = i + 1;
    for (uint32_t i = 0; i < BASELINE_REQUESTS; i++)
        b->requests[i].next_free = i + 1 < BASELINE_REQUESTS ? i + 1 : FLEET_NONE;
}

int baseline_control(const struct baseline_opts *o)
{
    struct base *b = calloc(1, sizeof *b);
    uint8_t id[FLEET_ID];
    struct fleet_listener *listener;
    if (!b || getrandom(id, FLEET_ID, 0) != FLEET_ID) return 1;
    base_make(b, o);
    struct fleet_conn_opts c =
        baseline_conn(FLEET_IS_CONTROLLER, 1 << FLEET_IS_CLIENT | 1 << FLEET_IS_WORKER, id);
    if (fleet_loop_create(&b->loop) ||
        fleet_listen(b->loop, &c, o->controller, &base_handler, &b->stranger, &listener)) {
        fprintf(stderr, "baseline: %s\n", gw_last_error());
        return 1;
    }
    setlinebuf(stdout);
    printf("controller on port %u\n", fleet_listener_port(listener));
    if (fleet_timer_set(b->loop, &b->round, fleet_loop_now(b->loop) + BASE_ROUND, base_round, b)) return 1;
    return fleet_loop_run(b->loop, INT64_MAX) ? 1 : 0;
}
