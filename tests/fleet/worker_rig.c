/* SPDX-License-Identifier: Apache-2.0 */
/* A worker among peers that a test plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "tests/fleet/worker_rig.h"

/* ---- the controller */

static void controller_open(void *ctx, struct fleet_conn *c)
{
    struct rig_controller *r = ctx;
    r->c = c;
    r->opened++;
    r->models = r->held = r->ready = 0;
}

static void controller_greet(struct rig_controller *r, struct fleet_conn *c)
{
    struct fleet_welcome w = {.term = r->term, .telemetry_ns = r->telemetry_ns};
    struct fleet_elsewhere e = {.retry_ns = MS};
    if (r->term) {
        fleet_send(c, FLEET_WELCOME, 0, &w, sizeof(w), NULL, 0, NULL);
    } else if (r->leader) {
        snprintf(e.leader, sizeof(e.leader), "%s", r->leader);
        fleet_send(c, FLEET_ELSEWHERE, 0, &e, sizeof(e), NULL, 0, NULL);
    }
}

static void controller_result(struct rig_controller *r, uint64_t seq, const void *body)
{
    memcpy(&r->result[seq % RIG_RESULTS], body, sizeof(r->result[0]));
    r->seq_of[seq % RIG_RESULTS] = seq;
    r->results++;
}

static void controller_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct rig_controller *r = ctx;
    switch (f->kind) {
    case FLEET_WORKER:
        memcpy(&r->worker, body, sizeof(r->worker));
        controller_greet(r, c);
        break;
    case FLEET_HAS_MODEL:
        r->models++;
        r->late_models += r->ready;
        memcpy(&r->last_model, body, sizeof(r->last_model));
        break;
    case FLEET_HELD: memcpy(&r->lease[r->held++ % RIG_HELD], body, sizeof(r->lease[0])); break;
    case FLEET_READY: r->ready++; break;
    case FLEET_RESULT: controller_result(r, f->seq, body); break;
    case FLEET_TELEMETRY:
        memcpy(&r->told, body, sizeof(r->told));
        r->tellings++;
        break;
    case FLEET_LEAVES: r->leaves++; break;
    default: break;
    }
}

static void controller_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct rig_controller *r = ctx;
    (void)err;
    (void)why;
    if (c != r->c) return;
    r->c = NULL;
    r->closed++;
    r->ready = 0;
}

static const struct fleet_handler controller_handler = {controller_open, controller_message,
                                                        controller_closed};
static const uint8_t controller_id[FLEET_ID] = "a controller...";

void rig_controller_start(struct rig_controller *c, uint64_t term)
{
    const struct fleet_conn_opts o = {.role = FLEET_IS_CONTROLLER,
                                      .peers = 1 << FLEET_IS_WORKER,
                                      .fleet = "f",
                                      .name = "",
                                      .id = controller_id,
                                      .silent_ns = 60 * SECOND};
    memset(c, 0, sizeof(*c));
    c->term = term;
    c->telemetry_ns = 5 * MS;
    assert_int_equal(fleet_loop_create(&c->loop), 0);
    assert_int_equal(fleet_listen(c->loop, &o, "127.0.0.1:0", &controller_handler, c, &c->listener), 0);
    snprintf(c->address, sizeof(c->address), "127.0.0.1:%u", fleet_listener_port(c->listener));
}

void rig_controller_stop(struct rig_controller *c)
{
    fleet_listener_close(c->listener);
    fleet_loop_destroy(c->loop);
    memset(c, 0, sizeof(*c));
}

uint64_t rig_action(struct rig_controller *c, uint32_t kind, uint32_t model, int64_t earliest, int64_t latest)
{
    struct fleet_act a = {
        .term = c->term, .kind = kind, .model = model, .earliest_at = earliest, .latest_at = latest};
    uint64_t seq = 0;
    assert_int_equal(fleet_send(c->c, FLEET_ACTION, 0, &a, sizeof(a), NULL, 0, &seq), 0);
    return seq;
}

uint64_t rig_lease(struct rig_controller *c, const struct fleet_lease *l)
{
    uint64_t seq = 0;
    assert_int_equal(fleet_send(c->c, FLEET_LEASE, 0, l, sizeof(*l), NULL, 0, &seq), 0);
    return seq;
}

int rig_outcome(const struct rig_controller *c, uint64_t seq)
{
    return c->seq_of[seq % RIG_RESULTS] == seq ? (int)c->result[seq % RIG_RESULTS].outcome : -1;
}

struct fleet_lease rig_lease_of(const struct rig_controller *c, const struct rig_client *k, uint32_t number,
                                uint32_t model)
{
    struct fleet_lease l = {.term = c->term,
                            .lease = number,
                            .model = model,
                            .key = 0x1000 + number,
                            .slots = 64,
                            .rate = 1e6f,
                            .left_ns = 20 * SECOND};
    memcpy(l.client, k->id, sizeof(l.client));
    return l;
}

void rig_serve(struct rig *r, const struct rig_client *k, uint32_t number, uint32_t model)
{
    struct fleet_lease l = rig_lease_of(r->ctl, k, number, model);
    uint64_t load = rig_action(r->ctl, FLEET_LOAD, model, 0, INT64_MAX), lease = rig_lease(r->ctl, &l);
    rig_until(r, rig_outcome(r->ctl, load) >= 0 && rig_outcome(r->ctl, lease) >= 0);
    assert_int_equal(rig_outcome(r->ctl, load), FLEET_DONE);
    assert_int_equal(rig_outcome(r->ctl, lease), FLEET_DONE);
}

/* ---- clients */

static void client_open(void *ctx, struct fleet_conn *c)
{
    struct rig_client *k = ctx;
    (void)c;
    k->open = true;
}

static void client_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct rig_client *k = ctx;
    (void)c;
    if (f->kind == FLEET_ANSWER) {
        memcpy(&k->last, body, sizeof(k->last));
        assert_int_equal(f->bytes, sizeof(k->last) + k->last.bytes);
        if (k->last.status != GW_SERVE_OK) k->refusal = k->last;
        k->answers++;
        k->of_status[k->last.status % 16]++;
    } else if (f->kind == FLEET_DESCRIBED) {
        snprintf(k->text, sizeof(k->text), "%.*s", (int)f->bytes, (const char *)body);
        k->described++;
    } else if (f->kind == FLEET_NOTHING) {
        k->nothing++;
    }
}

static void client_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct rig_client *k = ctx;
    (void)c;
    (void)err;
    k->c = NULL;
    k->open = false;
    k->closed++;
    snprintf(k->why, sizeof(k->why), "%s", why ? why : "");
}

static const struct fleet_handler client_handler = {client_open, client_message, client_closed};

void rig_client_open(struct rig *r, struct rig_client *k)
{
    struct fleet_agent_view v;
    bool known = false;
    for (int i = 0; i < FLEET_ID; i++) known |= k->id[i];
    if (!known) assert_int_equal(getrandom(k->id, sizeof(k->id), 0), sizeof(k->id));
    const struct fleet_conn_opts o = {.role = FLEET_IS_CLIENT,
                                      .peers = 1 << FLEET_IS_WORKER,
                                      .fleet = "f",
                                      .name = "",
                                      .id = k->id,
                                      .most = 8 << 20,
                                      .silent_ns = 60 * SECOND};
    fleet_agent_view(r->agent, &v);
    assert_int_equal(fleet_dial(r->clients, &o, v.address, &client_handler, k, &k->c), 0);
}

int rig_client_request(struct rig_client *k, uint32_t lease, uint64_t key, uint64_t id, uint64_t budget_ns)
{
    static const char input[64];
    struct fleet_request q = {
        .lease = lease, .rows = 1, .key = key, .id = id, .budget_ns = budget_ns, .bytes = sizeof(input)};
    return k->c ? fleet_send(k->c, FLEET_REQUEST, 0, &q, sizeof(q), input, sizeof(input), NULL) : -1;
}

/* ---- the worker */

static void rig_say(void *ctx, const char *line)
{
    struct rig *r = ctx;
    snprintf(r->lines[r->nlines++ % 32], sizeof(r->lines[0]), "%s", line);
}

void rig_start(struct rig *r, const struct rig_opts *o)
{
    struct fleet_engine *engine;
    assert_int_equal(fleet_loop_create(&r->loop), 0);
    assert_int_equal(fleet_loop_create(&r->clients), 0);
    assert_int_equal(
        fleet_zoo_create(o->models ? o->models : 8, o->profile ? o->profile : &rig_profile, &r->zoo), 0);
    struct fleet_emulated_opts e = {.loop = r->loop,
                                    .zoo = r->zoo,
                                    .gpu_pages = o->gpu_pages ? o->gpu_pages : 8,
                                    .host_pages = o->host_pages ? o->host_pages : 64,
                                    .slots = o->slots ? o->slots : 1024,
                                    .leases = o->leases ? o->leases : 64,
                                    .seed = 1};
    assert_int_equal(fleet_emulated_create(&e, &engine), 0);
    struct fleet_agent_opts a = {.loop = r->loop,
                                 .engine = engine,
                                 .fleet = "f",
                                 .name = "w1",
                                 .listen = "127.0.0.1:0",
                                 .controllers = o->controllers ? o->controllers
                                                : r->ctl       ? r->ctl->address
                                                               : NULL,
                                 .backlog = o->backlog,
                                 .silent_ns = o->silent_ns ? o->silent_ns : 30 * SECOND,
                                 .say = rig_say,
                                 .ctx = r};
    int err = fleet_agent_create(&a, &r->agent);
    if (err) fail_msg("%s", gw_last_error());
    if (r->ctl && r->ctl->term) rig_until(r, r->ctl->ready);
}

void rig_stop(struct rig *r)
{
    fleet_agent_destroy(r->agent);
    if (r->ctl) rig_controller_stop(r->ctl);
    fleet_loop_run(r->loop, rig_now() + MS);
    fleet_loop_destroy(r->clients);
    fleet_loop_destroy(r->loop);
    fleet_zoo_destroy(r->zoo);
    memset(r, 0, sizeof(*r));
}

void rig_turn(struct rig *r)
{
    fleet_loop_run(r->loop, rig_now() + MS / 5);
    fleet_loop_run(r->clients, rig_now() + MS / 5);
    if (r->ctl) fleet_loop_run(r->ctl->loop, rig_now() + MS / 5);
}

void rig_sleep(struct rig *r, int64_t ns)
{
    for (int64_t end = rig_now() + ns; rig_now() < end;) rig_turn(r);
}
