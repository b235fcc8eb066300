/* SPDX-License-Identifier: Apache-2.0 */
/* The workers and clients of rig.h. */
#include "tests/fleet/control/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>

#include "src/fleet/wire/loop.h"

struct fleet_loop *rig_loop;
char rig_address[FLEET_ADDRESS];

static const uint8_t empty_id[FLEET_ID];

void rig_run(int ms)
{
    assert_int_equal(fleet_loop_run(rig_loop, fleet_clock_now() + ms * MS), 0);
}

/* ---- workers */

static void worker_open(void *ctx, struct fleet_conn *conn)
{
    struct rig_worker *w = ctx;
    struct fleet_hello_worker h = {.gpu_pages = w->gpu_pages,
                                   .host_pages = 10000,
                                   .slots = 1024,
                                   .leases = RIG_LEASES,
                                   .models = w->models,
                                   .emulated = 1};
    snprintf(h.address, sizeof(h.address), "127.0.0.1:%u", 1000 + w->name[1]);
    fleet_send(conn, FLEET_WORKER, 0, &h, sizeof(h), NULL, 0, NULL);
}

static void worker_tells(struct rig_worker *w, uint32_t model)
{
    struct fleet_has_model m = {.model = model, .version = 1, .pages = w->pages, .where = w->where[model]};
    for (int i = 0; i < 5; i++) m.exec_ns[i] = w->exec_ns * (1 << i) * 3 / 4 + w->exec_ns / 4;
    m.load_ns = 5 * MS;
    m.max_batch = 16;
    snprintf(m.name, sizeof(m.name), "m%u", model);
    fleet_send(w->conn, FLEET_HAS_MODEL, 0, &m, sizeof(m), NULL, 0, NULL);
}

static void worker_welcome(struct rig_worker *w, const struct fleet_welcome *welcome)
{
    w->term = welcome->term;
    w->target = welcome->target;
    if (w->target.addr) return; /* it knows all */
    for (uint32_t i = 0; i < w->models; i++) worker_tells(w, i);
    for (uint32_t i = 0; i < RIG_LEASES; i++) {
        const struct fleet_lease *l = &w->lease[i];
        struct fleet_held h = {.lease = i,
                               .model = l->model,
                               .key = l->key,
                               .slots = l->slots,
                               .rate = l->rate,
                               .left_ns = w->until[i] - fleet_clock_now(),
                               .max_batch = l->max_batch,
                               .spill = l->spill};
        memcpy(h.client, l->client, FLEET_ID);
        if (l->key && h.left_ns > 0) fleet_send(w->conn, FLEET_HELD, 0, &h, sizeof(h), NULL, 0, NULL);
    }
    fleet_send(w->conn, FLEET_READY, 0, NULL, 0, NULL, 0, NULL);
}

static void worker_result(struct rig_worker *w, uint64_t seq, uint32_t model, uint32_t outcome)
{
    struct fleet_result r = {.outcome = outcome, .model = model, .began_at = 1, .ended_at = 2};
    if (model < RIG_MODELS) r.where = w->where[model];
    if (w->obeys_another) r.outcome = FLEET_OLD_TERM;
    if (outcome) strcpy(r.why, "the rig says no");
    fleet_send(w->conn, FLEET_RESULT, seq, &r, sizeof(r), NULL, 0, NULL);
}

static void worker_action(struct rig_worker *w, uint64_t seq, const struct fleet_act *a)
{
    assert_int_equal(a->term, w->term);
    assert_true(a->model < w->models && a->kind <= FLEET_DROP && a->earliest_at <= a->latest_at);
    w->loads += a->kind == FLEET_LOAD;
    w->evicts += a->kind == FLEET_EVICT;
    if (w->silent) return;
    if (w->fails) {
        w->fails--;
        worker_result(w, seq, a->model, FLEET_BROKEN);
        return;
    }
    uint32_t used = 0;
    if (a->kind == FLEET_LOAD) w->where[a->model] = FLEET_GPU;
    if (a->kind == FLEET_EVICT) w->where[a->model] = FLEET_HOST;
    if (a->kind == FLEET_DROP) w->where[a->model] = UINT32_MAX;
    for (uint32_t i = 0; i < w->models; i++) used += w->where[i] == FLEET_GPU ? w->pages : 0;
    assert_true(used <= w->gpu_pages);
    worker_result(w, seq, a->model, FLEET_DONE);
}

/* Leases never exceed the worker, and no lease is of a model that is not there. */
static void worker_lease(struct rig_worker *w, uint64_t seq, const struct fleet_lease *l)
{
    uint32_t slots = 0;
    assert_int_equal(l->term, w->term);
    assert_true(l->lease < RIG_LEASES && l->model < w->models);
    if (l->left_ns) {
        assert_int_equal(w->where[l->model], FLEET_GPU);
        assert_true(l->key && l->slots && l->rate > 0 && l->left_ns > 0 && l->left_ns <= 10000 * MS);
        assert_true(memcmp(l->client, empty_id, FLEET_ID) != 0);
    }
    w->lease[l->lease] = *l;
    w->until[l->lease] = fleet_clock_now() + l->left_ns;
    if (!l->left_ns) w->lease[l->lease].key = 0;
    w->leases = 0;
    for (uint32_t i = 0; i < RIG_LEASES; i++) {
        w->leases += w->lease[i].key != 0;
        slots += w->lease[i].key ? w->lease[i].slots : 0;
    }
    assert_true(slots <= 1024);
    worker_result(w, seq, l->model, FLEET_DONE);
}

static void worker_message(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f, const void *body)
{
    struct rig_worker *w = ctx;
    const struct fleet_elsewhere *e = body;
    (void)conn;
    if (f->kind == FLEET_WELCOME) worker_welcome(w, body);
    if (f->kind == FLEET_TARGETED) w->targeted = true;
    if (f->kind == FLEET_ACTION) worker_action(w, f->seq, body);
    if (f->kind == FLEET_LEASE) worker_lease(w, f->seq, body);
    if (f->kind == FLEET_ELSEWHERE) memcpy(w->leader, e->leader, sizeof(w->leader));
}

static void worker_closed(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    struct rig_worker *w = ctx;
    (void)conn, (void)err;
    w->conn = NULL;
    w->cut++;
    snprintf(w->why, sizeof(w->why), "%s", why);
}

void rig_worker_again(struct rig_worker *w)
{
    static const struct fleet_handler handler = {worker_open, worker_message, worker_closed};
    struct fleet_conn_opts o = {.role = FLEET_IS_WORKER,
                                .peers = 1 << FLEET_IS_CONTROLLER,
                                .fleet = "test",
                                .name = w->name,
                                .id = w->id};
    assert_int_equal(fleet_dial(rig_loop, &o, rig_address, &handler, w, &w->conn), 0);
}

void rig_worker_dial(struct rig_worker *w, const char *name, uint32_t models)
{
    *w = (struct rig_worker){.models = models, .gpu_pages = 40, .pages = 10, .exec_ns = MS};
    strcpy(w->name, name);
    for (uint32_t i = 0; i < RIG_MODELS; i++) w->where[i] = FLEET_HOST;
    assert_int_equal(getrandom(w->id, FLEET_ID, 0), FLEET_ID);
    rig_worker_again(w);
}

/* ---- clients */

static void client_demand(void *ctx)
{
    struct rig_client *c = ctx;
    struct fleet_demand_message d = {.slots = 4,
                                     .deadline_ns = c->deadline_ns,
                                     .since_ns = 50 * MS,
                                     .offered = c->offered,
                                     .answered = c->offered,
                                     .waiting = c->waiting};
    strcpy(d.model, c->model);
    if (!c->conn) return;
    if (!c->quiet) fleet_send(c->conn, FLEET_DEMAND, 0, &d, sizeof(d), NULL, 0, NULL);
    assert_int_equal(
        fleet_timer_set(rig_loop, &c->timer, fleet_loop_now(rig_loop) + 50 * MS, client_demand, c), 0);
}

/* A client has one lease of a worker and a number. */
static void client_keeps(struct rig_client *c, const struct fleet_granted *g)
{
    uint32_t i = 0, empty = RIG_LEASES;
    for (; i < RIG_LEASES; i++) {
        bool same = c->lease[i].lease == g->lease && !memcmp(c->lease[i].worker_id, g->worker_id, FLEET_ID);
        if (c->lease[i].key && same) break;
        if (!c->lease[i].key && empty == RIG_LEASES) empty = i;
    }
    if (i == RIG_LEASES) {
        i = empty;
        c->held++;
    }
    assert_true(i < RIG_LEASES);
    c->lease[i] = *g;
}

static void client_loses(struct rig_client *c, const struct fleet_revoked *r)
{
    for (uint32_t i = 0; i < RIG_LEASES; i++) {
        if (!c->lease[i].key || c->lease[i].lease != r->lease) continue;
        if (memcmp(c->lease[i].worker_id, r->worker_id, FLEET_ID)) continue;
        c->lease[i].key = 0;
        c->held--;
    }
}

static void client_message(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f, const void *body)
{
    struct rig_client *c = ctx;
    const struct fleet_granted *g = body;
    const struct fleet_elsewhere *e = body;
    const struct fleet_nothing *n = body;
    const struct fleet_sheds *s = body;
    (void)conn;
    if (f->kind == FLEET_WELCOME) {
        c->welcomes++;
        client_demand(c);
    } else if (f->kind == FLEET_GRANTED) {
        assert_true(g->key && g->slots && g->rate > 0 && g->left_ns > 0 && g->exec_ns > 0);
        c->granted++;
        c->last = *g;
        client_keeps(c, g);
    } else if (f->kind == FLEET_REVOKED) {
        c->revoked++;
        client_loses(c, body);
    } else if (f->kind == FLEET_NOTHING) {
        c->nothing++;
        c->error = n->error;
    } else if (f->kind == FLEET_SHEDS) {
        c->sheds++;
        c->admitted = s->admitted;
    } else if (f->kind == FLEET_ELSEWHERE) {
        memcpy(c->leader, e->leader, sizeof(c->leader));
    }
}

static void client_closed(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    struct rig_client *c = ctx;
    (void)conn, (void)err, (void)why;
    fleet_timer_clear(rig_loop, &c->timer);
    c->conn = NULL;
    c->cut++;
}

static void client_open(void *ctx, struct fleet_conn *conn)
{
    (void)ctx, (void)conn; /* the controller speaks first */
}

void rig_client_again(struct rig_client *c)
{
    static const struct fleet_handler handler = {client_open, client_message, client_closed};
    struct fleet_conn_opts o = {
        .role = FLEET_IS_CLIENT, .peers = 1 << FLEET_IS_CONTROLLER, .fleet = "test", .name = "", .id = c->id};
    assert_int_equal(fleet_dial(rig_loop, &o, rig_address, &handler, c, &c->conn), 0);
}

void rig_client_dial(struct rig_client *c, const char *model, uint64_t offered)
{
    *c = (struct rig_client){.offered = offered, .deadline_ns = 20 * MS};
    strcpy(c->model, model);
    assert_int_equal(getrandom(c->id, FLEET_ID, 0), FLEET_ID);
    rig_client_again(c);
}
