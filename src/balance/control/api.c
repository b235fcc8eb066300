/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the HTTP API: services, workers, queue pairs, the state of the balancer. */
#include "src/balance/control/api.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/drain.h"
#include "src/balance/control/json.h"
#include "src/balance/control/pairs.h"
#include "src/door/httpd.h"

/* A call on its way: what its path names. */
struct call {
    struct gw_bal_core *core;
    const char *method;
    const json_t *body;
    struct gw_bal_service *service;
    struct gw_bal_worker *worker;
    const char *worker_name;
    json_t **reply;
    uint32_t touched_service, touched_worker; /* ids of what the call has changed; GW_BAL_ANY_ID: none */
};

static unsigned api_fail(json_t **reply, unsigned status, const char *why)
{
    *reply = gw_http_error(why);
    return status;
}

static unsigned fail_errno(json_t **reply, int err)
{
    unsigned status = err == -ENOENT   ? 404
                      : err == -EEXIST ? 409
                      : err == -EINVAL ? 400
                      : err == -ENOSPC ? 507
                      : err == -EAGAIN ? 503
                                       : 500;
    return api_fail(reply, status, gw_last_error());
}

static unsigned done(json_t **reply, unsigned status, json_t *body)
{
    *reply = body;
    return body ? status : api_fail(reply, 500, "out of memory");
}

static unsigned only(json_t **reply, const char *methods)
{
    char why[96];
    snprintf(why, sizeof(why), "this takes %s", methods);
    return api_fail(reply, 405, why);
}

static bool is(const struct call *c, const char *method)
{
    return !strcmp(c->method, method);
}

/* A caller of the API may not run programs by it: only the file names scripts. */
static int no_script(const struct call *c, const struct gw_bal_check *check)
{
    if (!json_object_get(c->body, "check") || !gw_bal_check_asks(check, GW_BAL_MISC_CHECK)) return 0;
    return gw_error(-EINVAL, "check: only the file may name a script; add MISC_CHECK there");
}

/* ---- services ---- */

static unsigned services(struct call *c)
{
    struct gw_bal_service s = {.sched = GW_BAL_WLC, .origin = GW_BAL_OF_API}, *mine;
    gw_bal_check_default(&s.check);
    if (is(c, "GET")) {
        json_t *all = json_array();
        for (const struct gw_bal_service *o = c->core->model.services; o; o = o->next)
            json_array_append_new(all, gw_bal_service_json(o));
        return done(c->reply, 200, json_pack("{s:o}", "services", all));
    }
    if (!is(c, "POST")) return only(c->reply, "GET and POST");
    int err = gw_bal_service_from(c->body, &s);
    if (!err) err = no_script(c, &s.check);
    if (!err && s.protocol == GW_BAL_ROCE && !s.port) s.port = 4791;
    if (!err) err = gw_bal_add_service(&c->core->model, &s, &mine);
    if (!err && (err = gw_bal_model_check(&c->core->model)))
        gw_bal_remove_service(&c->core->model, mine); /* nothing has changed */
    c->touched_service = err ? GW_BAL_ANY_ID : mine->id;
    return err ? fail_errno(c->reply, err) : done(c->reply, 201, gw_bal_service_json(mine));
}

/* Options that may change while the service has flows. */
static unsigned change_service(struct call *c)
{
    struct gw_bal_service wanted = *c->service;
    int err = gw_bal_service_from(c->body, &wanted);
    if (!err) err = no_script(c, &wanted.check);
    if (!err && (wanted.protocol != c->service->protocol || wanted.port != c->service->port ||
                 !gw_bal_addr_same(&wanted.addr, &c->service->addr) || strcmp(wanted.name, c->service->name)))
        err = gw_error(-EINVAL, "service %s: name, address, port and protocol stay; add another service",
                       c->service->name);
    if (!err) err = gw_bal_service_fits(&c->core->model, &wanted);
    for (const struct gw_bal_worker *w = c->service->workers; !err && w; w = w->next)
        err = gw_bal_fits(&c->core->model, &wanted, w);
    if (err) return fail_errno(c->reply, err);
    c->service->sched = wanted.sched;
    c->service->forward = wanted.forward;
    c->service->jet = wanted.jet;
    c->service->drain_limit_ns = wanted.drain_limit_ns;
    c->service->quorum = wanted.quorum;
    c->service->persist_s = wanted.persist_s;
    c->service->persist_bits = wanted.persist_bits;
    gw_bal_set_check(&c->core->model, c->service, &wanted.check);
    c->core->model.version++;
    return done(c->reply, 200, gw_bal_service_json(c->service));
}

static unsigned service(struct call *c)
{
    if (is(c, "GET")) return done(c->reply, 200, gw_bal_service_json(c->service));
    if (is(c, "PATCH")) return change_service(c);
    if (!is(c, "DELETE")) return only(c->reply, "GET, PATCH and DELETE");
    gw_bal_remove_service(&c->core->model, c->service);
    c->service = NULL;
    return done(c->reply, 200, json_object());
}

/* ---- workers ---- */

static unsigned add_worker(struct call *c, uint8_t origin)
{
    struct gw_bal_worker w = {.weight = 1, .origin = origin}, *mine;
    if (c->worker_name) snprintf(w.name, sizeof(w.name), "%s", c->worker_name);
    int err = gw_bal_worker_from(c->body, &w);
    if (!err) err = no_script(c, &w.check);
    if (w.port == c->service->port) w.port = 0;
    if (!err) err = gw_bal_add_worker(&c->core->model, c->service, &w, &mine);
    if (!err && (err = gw_bal_model_check(&c->core->model)))
        gw_bal_leave(&c->core->model, c->service, mine, true); /* nothing has changed */
    if (err) return fail_errno(c->reply, err);
    c->worker = mine;
    return done(c->reply, 201, gw_bal_worker_json(c->service, mine));
}

static unsigned workers(struct call *c)
{
    if (is(c, "POST")) return add_worker(c, GW_BAL_OF_API);
    if (!is(c, "GET")) return only(c->reply, "GET and POST");
    json_t *all = json_array();
    for (const struct gw_bal_worker *w = c->service->workers; w; w = w->next)
        json_array_append_new(all, gw_bal_worker_json(c->service, w));
    return done(c->reply, 200, json_pack("{s:o}", "workers", all));
}

static unsigned change_worker(struct call *c)
{
    char state[16] = "";
    uint64_t weight = c->worker->weight, limit = 0;
    int limits = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)c->body, key, value)
    {
        if (strcmp(key, "state") && strcmp(key, "weight") && strcmp(key, "drain_limit_ms"))
            return api_fail(c->reply, 400,
                            "of a worker, `state`, `weight` and `drain_limit_ms` can be changed");
    }
    if (!c->body || gw_bal_get_number(c->body, "weight", 0, GW_BAL_WEIGHT, &weight) < 0 ||
        (limits = gw_bal_get_drain_limit(c->body, &limit)) < 0 ||
        gw_bal_get_text(c->body, "state", state, sizeof(state)) < 0)
        return api_fail(c->reply, 400,
                        c->body ? gw_last_error() : "a body is missing, such as {\"weight\": 2}");
    if (state[0] && strcmp(state, "draining") && strcmp(state, "up"))
        return api_fail(c->reply, 400, "state: must be up or draining");
    int drains = state[0] ? state[0] == 'd' : c->worker->drain || c->worker->leave;
    if (limits > 0 && !drains)
        return api_fail(c->reply, 400, "drain_limit_ms goes with a worker that drains");
    gw_bal_set_weight(&c->core->model, c->worker, weight);
    if (state[0]) gw_bal_drain(&c->core->model, c->worker, drains);
    if (limits > 0) gw_bal_limit_drain(&c->core->model, c->worker, limit, gw_deadline(0));
    return done(c->reply, 200, gw_bal_worker_json(c->service, c->worker));
}

/* Which address clients call, and where their RDMA goes: to a service of the same address. */
static void add_rdma(const struct call *c, json_t *reply)
{
    char addr[GW_BAL_ADDR];
    json_object_set_new(reply, "vip", json_string(gw_bal_addr_text(&c->service->addr, addr)));
    for (const struct gw_bal_service *s = c->core->model.services; s; s = s->next) {
        if (s->protocol != GW_BAL_ROCE || s == c->service || !gw_bal_addr_same(&s->addr, &c->service->addr))
            continue;
        json_object_set_new(
            reply, "rdma",
            json_pack("{s:s, s:s}", "service", s->name, "forward", gw_bal_forward_names[s->forward]));
        return;
    }
}

/* The worker itself speaks: it is there, and this much waits there. */
static unsigned beat(struct call *c)
{
    uint64_t queue = 0, bytes = 0, ms = 1000, n = 0;
    uint8_t leaving = 0;
    unsigned status = 200;
    if (gw_bal_get_number(c->body, "queue", 0, UINT32_MAX, &queue) < 0 ||
        gw_bal_get_number(c->body, "queue_bytes", 0, INT64_MAX, &bytes) < 0 ||
        gw_bal_get_number(c->body, "beat_ms", 10, 3600000, &ms) < 0 ||
        gw_bal_get_number(c->body, "weight", 0, GW_BAL_WEIGHT, &n) < 0 ||
        gw_bal_get_yes(c->body, "leaving", &leaving) < 0)
        return fail_errno(c->reply, -EINVAL);
    if (!c->worker && leaving) return done(c->reply, 200, json_object()); /* it has left */
    if (!c->worker) status = add_worker(c, GW_BAL_OF_ITSELF);
    if (status > 299) return status;
    struct gw_bal_worker *w = c->worker;
    if (leaving)
        gw_bal_leave(&c->core->model, c->service, w, false);
    else if (w->leave && w->silent)
        gw_bal_drain(&c->core->model, w, w->drain); /* it is back */
    if (status == 200) *c->reply = gw_bal_worker_json(c->service, w);
    add_rdma(c, *c->reply);
    w->telemetry = (struct gw_bal_telemetry){
        .at_ns = gw_deadline(0), .beat_ns = ms * 1000000, .queue = (uint32_t)queue, .bytes = bytes};
    return status;
}

static unsigned remove_worker(struct call *c)
{
    uint8_t now = 0;
    uint64_t limit = 0;
    int limits = gw_bal_get_drain_limit(c->body, &limit);
    if (limits < 0 || gw_bal_get_yes(c->body, "now", &now) < 0) return fail_errno(c->reply, -EINVAL);
    gw_bal_leave(&c->core->model, c->service, c->worker, now);
    if (limits > 0 && !now) gw_bal_limit_drain(&c->core->model, c->worker, limit, gw_deadline(0));
    if (now) c->worker = NULL;
    return done(c->reply, now ? 200 : 202, now ? json_object() : gw_bal_worker_json(c->service, c->worker));
}

static unsigned worker(struct call *c)
{
    c->worker = gw_bal_find_worker(c->service, c->worker_name);
    if (is(c, "PUT")) return beat(c);
    if (!c->worker) return fail_errno(c->reply, -ENOENT);
    if (is(c, "GET")) return done(c->reply, 200, gw_bal_worker_json(c->service, c->worker));
    if (is(c, "PATCH")) return change_worker(c);
    if (is(c, "DELETE")) return remove_worker(c);
    return only(c->reply, "GET, PUT, PATCH and DELETE");
}

/* ---- queue pairs that CM did not connect ---- */

/* 200: a packet to it finds its worker from now on; 202: soon. */
static unsigned told(struct call *c, int err)
{
    if (err) return fail_errno(c->reply, err);
    int done_now = gw_bal_pairs_wait(c->core);
    return done(c->reply, done_now ? 200 : 202, json_object());
}

static unsigned queue_pairs(struct call *c)
{
    if (is(c, "GET")) return done(c->reply, 200, gw_bal_pairs_json(c->core, c->service));
    if (!is(c, "POST")) return only(c->reply, "GET and POST");
    return told(c, gw_bal_pairs_tell(c->core, c->service, c->body));
}

static unsigned worker_pairs(struct call *c)
{
    c->worker = gw_bal_find_worker(c->service, c->worker_name);
    if (!c->worker) return fail_errno(c->reply, -ENOENT);
    if (!is(c, "PUT")) return only(c->reply, "PUT");
    return told(c, gw_bal_pairs_set(c->core, c->service, c->worker, c->body));
}

/* ---- the rest ---- */

static unsigned text_reply(struct call *c, char *text)
{
    json_t *j = text ? json_string(text) : NULL;
    free(text);
    return done(c->reply, 200, j);
}

static unsigned api_config(struct call *c)
{
    char *text = gw_bal_config_write(&c->core->model);
    json_t *j = text ? json_pack("{s:s}", "config", text) : NULL;
    free(text);
    return done(c->reply, 200, j);
}

static unsigned api_stats(struct call *c)
{
    uint64_t now = gw_deadline(0);
    return done(c->reply, 200,
                json_pack("{s:s, s:I, s:b, s:I, s:I, s:s, s:O?}", "version", GW_VERSION, "uptime_ms",
                          (json_int_t)((now - c->core->started_ns) / 1000000), "attached",
                          gw_bal_core_alive(c->core), "age_ms",
                          (json_int_t)(c->core->stats_ns ? (now - c->core->stats_ns) / 1000000 : 0),
                          "restarts", (json_int_t)c->core->restarts, "refused", c->core->refused, "data",
                          c->core->stats));
}

static unsigned history(struct call *c)
{
    uint64_t now = gw_deadline(0);
    if (!is(c, "GET")) return only(c->reply, "GET");
    return done(c->reply, 200,
                c->service ? gw_bal_history_service_json(c->core->history, c->service, now)
                           : gw_bal_history_json(c->core->history, now));
}

static unsigned api_reload(struct call *c)
{
    if (!is(c, "POST")) return only(c->reply, "POST");
    int err = gw_bal_core_reload(c->core);
    return err ? fail_errno(c->reply, err) : done(c->reply, 200, json_object());
}

static unsigned top(struct call *c, const char *name)
{
    if (strcmp(name, "services") && strcmp(name, "reload") && !is(c, "GET")) return only(c->reply, "GET");
    if (!strcmp(name, "reload")) return api_reload(c);
    if (!strcmp(name, "services")) return services(c);
    if (!strcmp(name, "stats")) return api_stats(c);
    if (!strcmp(name, "history")) return history(c);
    if (!strcmp(name, "config")) return api_config(c);
    if (!strcmp(name, "health")) return done(c->reply, gw_bal_core_alive(c->core) ? 200 : 503, json_object());
    return api_fail(c->reply, 404, "no such call; see docs/balance.md");
}

static unsigned route(struct call *c, char *path)
{
    char *rest = path, *word[5] = {0};
    unsigned n = 0;
    while (n < 5 && (word[n] = strsep(&rest, "/"))) n++;
    if (n > 2 && gw_bal_name_index(gw_bal_protocol_names, word[2]) >= 0) { /* VIP:PORT/PROTOCOL */
        word[2][-1] = '/';
        for (unsigned i = 2; i < 4; i++) word[i] = word[i + 1];
        n--;
        word[4] = rest ? strsep(&rest, "/") : NULL;
        n += word[4] != NULL;
    }
    if (rest || !n) return api_fail(c->reply, 404, "no such call; see docs/balance.md");
    if (n > 1 && !*word[n - 1]) n--; /* a slash at the end */
    if (n == 1) return top(c, word[0]);
    if (strcmp(word[0], "services")) return api_fail(c->reply, 404, "no such call; see docs/balance.md");
    c->service = gw_bal_find_service(&c->core->model, word[1]);
    if (!c->service) return fail_errno(c->reply, -ENOENT);
    c->worker_name = word[3];
    if (n == 2) return service(c);
    if (n == 3 && !strcmp(word[2], "workers")) return workers(c);
    if (n == 3 && !strcmp(word[2], "history")) return history(c);
    if (n == 4 && !strcmp(word[2], "workers")) return worker(c);
    if (n == 3 && !strcmp(word[2], "queue_pairs")) return queue_pairs(c);
    if (n == 5 && !strcmp(word[2], "workers") && !strcmp(word[4], "queue_pairs")) return worker_pairs(c);
    return api_fail(c->reply, 404, "no such call; see docs/balance.md");
}

/* The lock was released in between: the objects are looked up again. */
static unsigned api_refused(struct call *c, unsigned status)
{
    const struct gw_bal_service *s = gw_bal_service_by_id(&c->core->model, c->touched_service);
    const struct gw_bal_worker *w = gw_bal_worker_by_id(&c->core->model, c->touched_worker);
    const char *why = c->core->refused[0]        ? c->core->refused
                      : w && w->refused[0]       ? w->refused
                      : !w && s && s->refused[0] ? s->refused
                                                 : NULL;
    char text[300];
    if (!why) return status;
    json_decref(*c->reply);
    snprintf(text, sizeof(text), "the data plane refuses it: %s", why);
    return api_fail(c->reply, c->core->refused[0] ? 500 : 409, text);
}

/* A change is in force when the answer says 200 or 201: each packet that comes later finds it. 202: soon.
 * A worker that speaks for itself does not wait. */
static unsigned api_in_force(struct call *c, unsigned status, uint64_t before)
{
    if (is(c, "PUT") || status > 299 || c->core->model.version == before || !c->core->attached) return status;
    c->touched_worker = c->worker ? c->worker->id : GW_BAL_ANY_ID;
    if (c->service) c->touched_service = c->service->id;
    int has = gw_bal_core_wait(c->core, &c->core->applied, c->core->model.version);
    return has ? api_refused(c, status) : 202;
}

unsigned gw_bal_api_call(struct gw_bal_core *core, const char *method, const char *path, const json_t *body,
                         json_t **reply)
{
    struct call c = {.core = core,
                     .method = method,
                     .body = body,
                     .reply = reply,
                     .touched_service = GW_BAL_ANY_ID,
                     .touched_worker = GW_BAL_ANY_ID};
    unsigned status;
    pthread_mutex_lock(&core->lock);
    uint64_t before = core->model.version;
    if (!strcmp(path, "/metrics")) {
        status = is(&c, "GET") ? text_reply(&c, gw_bal_metrics(core)) : only(reply, "GET");
    } else if (strncmp(path, "/v1/", 4)) {
        status = api_fail(reply, 404, "no such call; see docs/balance.md");
    } else {
        char *mine = strdup(path + 4);
        status = mine ? route(&c, mine) : api_fail(reply, 500, "out of memory");
        free(mine);
        status = api_in_force(&c, status, before);
    }
    pthread_mutex_unlock(&core->lock);
    if (strcmp(method, "GET")) gw_bal_core_wake(core);
    return status;
}
