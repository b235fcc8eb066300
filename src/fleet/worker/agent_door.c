/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_door.c: the data port. A client asks what a model is (DESCRIBE), opens an RDMA session (OPEN), or
 * sends requests over TCP (REQUEST). What it may do is its lease's to say, which the engine checks. A client
 * that does not read its answers is cut off by its connection's limit. What a client has under way when it
 * goes is recalled, and its answers go nowhere.
 */
#include "src/fleet/worker/agent_impl.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>
#include <gpuwire/error.h>

#include "src/server/wire/wire.h"

enum {
    DOOR_SESSIONS = 16,    /* of one connection */
    DOOR_METADATA = 4096,  /* bytes, at first */
    DOOR_FRAME = 64 << 10, /* the least limit of a frame */
    DOOR_BACKLOG = 64 << 20,
    DOOR_CONNECTIONS = 4096,
};

struct door_client {
    struct agent_guest guest; /* first */
    struct agent_ring ring;
    struct fleet_conn *conn;
    struct agent_ring calls, sessions;
    uint32_t nsessions;
};

struct door_call {
    struct agent_ring ring; /* of the client's, or of the orphans */
    struct fleet_handed handed;
    struct fleet_call call;
    struct fleet_agent *agent;
    struct door_client *client; /* NULL: it has gone */
};

struct door_session {
    struct agent_ring ring;
    struct fleet_handed handed;
    struct fleet_session session;
    struct fleet_agent *agent;
    struct door_client *client; /* NULL: it has gone */
    uint64_t seq;
    bool open;
};

static void door_gone(struct door_client *k);

/* Ends a connection whose client does not keep to the protocol. */
static void door_end(struct door_client *k, int err, const char *why)
{
    fleet_conn_close(k->conn, err, why);
    door_gone(k);
}

/* ---- DESCRIBE */

static void door_no_model(struct door_client *k, uint64_t seq, const char *model)
{
    struct fleet_nothing n = {.error = -ENOENT};
    snprintf(n.model, sizeof(n.model), "%s", model);
    snprintf(n.why, sizeof(n.why), "this worker has no such model");
    fleet_send(k->conn, FLEET_NOTHING, seq, &n, sizeof(n), NULL, 0, NULL);
}

static void door_describe(struct door_client *k, uint64_t seq, const struct fleet_describe *d)
{
    const struct fleet_engine *e = k->guest.agent->o.engine;
    char some[DOOR_METADATA], *all = some;
    int64_t model = e->ops->find(e, d->model);
    if (model < 0) {
        door_no_model(k, seq, d->model);
        return;
    }
    int n = e->ops->describe(e, (uint32_t)model, some, sizeof(some));
    if (n > (int)sizeof(some)) {
        all = malloc((size_t)n);
        if (all) n = e->ops->describe(e, (uint32_t)model, all, (size_t)n);
    }
    if (n < 0 || !all)
        door_no_model(k, seq, d->model);
    else
        fleet_send(k->conn, FLEET_DESCRIBED, seq, all, (size_t)n, NULL, 0, NULL);
    if (all != some) free(all);
}

/* ---- OPEN */

/* The loop's thread: the engine has opened it, or could not. */
static void door_opened(struct fleet_handed *h)
{
    struct door_session *s = AGENT_OF(struct door_session, handed, h);
    struct fleet_agent *a = s->agent;
    struct door_client *k = s->client;
    if (!s->session.err && k) {
        s->open = true;
        fleet_send(k->conn, FLEET_OPENED, s->seq, &s->session.opened, sizeof(s->session.opened), NULL, 0,
                   NULL);
        return;
    }
    if (!s->session.err) a->o.engine->ops->close(a->o.engine, &s->session);
    agent_ring_remove(&s->ring);
    if (k) {
        k->nsessions--;
        door_end(k, s->session.err, s->session.why);
    }
    free(s);
}

/* Any thread. */
static void door_session_done(struct fleet_session *session)
{
    struct door_session *s = AGENT_OF(struct door_session, session, session);
    fleet_handover_put(s->agent->done, &s->handed);
}

static void door_open_session(struct door_client *k, uint64_t seq, const struct fleet_open *o)
{
    struct fleet_agent *a = k->guest.agent;
    struct door_session *s = k->nsessions < DOOR_SESSIONS ? calloc(1, sizeof(*s)) : NULL;
    if (!s) {
        door_end(k, -ENOBUFS,
                 k->nsessions < DOOR_SESSIONS ? "no memory" : "too many sessions on a connection");
        return;
    }
    s->agent = a;
    s->client = k;
    s->seq = seq;
    s->handed.f = door_opened;
    s->session.done = door_session_done;
    s->session.open = *o;
    memcpy(s->session.client, fleet_conn_peer(k->conn)->id, FLEET_ID);
    agent_ring_add(&k->sessions, &s->ring);
    k->nsessions++;
    a->o.engine->ops->open(a->o.engine, &s->session);
}

/* ---- REQUEST */

/* The loop's thread: the engine has answered. */
static void door_answered(struct fleet_handed *h)
{
    struct door_call *c = AGENT_OF(struct door_call, handed, h);
    struct fleet_agent *a = c->agent;
    const struct fleet_answer *n = &c->call.answer;
    if (c->client)
        fleet_send(c->client->conn, FLEET_ANSWER, 0, n, sizeof(*n), c->call.output, n->bytes, NULL);
    a->o.engine->ops->release(a->o.engine, &c->call);
    agent_ring_remove(&c->ring);
    a->ncalls--;
    free(c);
}

/* Any thread. */
static void door_call_done(struct fleet_call *call)
{
    struct door_call *c = AGENT_OF(struct door_call, call, call);
    fleet_handover_put(c->agent->done, &c->handed);
}

/* An answer to a request that the engine never sees. */
static void door_refuse(struct door_client *k, const struct fleet_request *r, enum gw_serve_status status)
{
    int64_t now = agent_now(k->guest.agent);
    struct fleet_answer n = {
        .id = r->id, .status = status, .arrived_at = now, .started_at = now, .done_at = now};
    fleet_send(k->conn, FLEET_ANSWER, 0, &n, sizeof(n), NULL, 0, NULL);
}

static void door_request(struct door_client *k, const struct fleet_frame *f, const struct fleet_request *r)
{
    struct fleet_agent *a = k->guest.agent;
    if (r->bytes != f->bytes - sizeof(*r)) {
        door_refuse(k, r, GW_SERVE_BAD_REQUEST);
        return;
    }
    struct door_call *c = calloc(1, sizeof(*c));
    if (!c) {
        door_refuse(k, r, GW_SERVE_FAILED);
        return;
    }
    c->agent = a;
    c->client = k;
    c->handed.f = door_answered;
    c->call.done = door_call_done;
    c->call.request = *r;
    c->call.input = r + 1;
    c->call.arrived_at = agent_now(a);
    memcpy(c->call.client, fleet_conn_peer(k->conn)->id, FLEET_ID);
    agent_ring_add(&k->calls, &c->ring);
    a->ncalls++;
    a->o.engine->ops->submit(a->o.engine, &c->call);
}

/* ---- a client's connection */

/* The client has gone. What it had under way ends without it. */
static void door_gone(struct door_client *k)
{
    struct fleet_agent *a = k->guest.agent;
    while (k->calls.next != &k->calls) {
        struct door_call *c = AGENT_OF(struct door_call, ring, k->calls.next);
        agent_ring_remove(&c->ring);
        agent_ring_add(&a->orphans, &c->ring);
        c->client = NULL;
        a->o.engine->ops->recall(a->o.engine, &c->call);
    }
    while (k->sessions.next != &k->sessions) {
        struct door_session *s = AGENT_OF(struct door_session, ring, k->sessions.next);
        agent_ring_remove(&s->ring);
        s->client = NULL;
        if (s->open) {
            a->o.engine->ops->close(a->o.engine, &s->session);
            free(s);
        } else {
            agent_ring_add(&a->orphans, &s->ring);
        }
    }
    agent_ring_remove(&k->ring);
    a->nclients--;
    free(k);
}

static void door_open(void *ctx, struct fleet_conn *c)
{
    struct fleet_agent *a = ((struct agent_guest *)ctx)->agent;
    struct door_client *k = calloc(1, sizeof(*k));
    if (!k) {
        fleet_conn_close(c, -ENOMEM, "no memory");
        return;
    }
    k->guest = (struct agent_guest){a, true};
    k->conn = c;
    agent_ring_init(&k->calls);
    agent_ring_init(&k->sessions);
    agent_ring_add(&a->clients, &k->ring);
    a->nclients++;
    fleet_conn_set_ctx(c, k);
}

static void door_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct door_client *k = ctx;
    const void *b = NULL;
    (void)c;
    switch (f->kind) {
    case FLEET_DESCRIBE:
        b = FLEET_BODY(struct fleet_describe, f, body);
        if (b && fleet_text_ok(((const struct fleet_describe *)b)->model, FLEET_MODEL))
            door_describe(k, f->seq, b);
        else
            door_end(k, -EBADMSG, "DESCRIBE names no model");
        return;
    case FLEET_OPEN:
        if ((b = FLEET_BODY(struct fleet_open, f, body)))
            door_open_session(k, f->seq, b);
        else
            door_end(k, -EBADMSG, "OPEN is too short");
        return;
    case FLEET_REQUEST:
        if ((b = FLEET_BODY(struct fleet_request, f, body)))
            door_request(k, f, b);
        else
            door_end(k, -EBADMSG, "REQUEST is too short");
        return;
    default: return; /* of a newer version */
    }
}

static void door_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct agent_guest *g = ctx;
    (void)c;
    (void)err;
    (void)why;
    if (g->is_client) door_gone(ctx);
}

static const struct fleet_handler door_handler = {door_open, door_message, door_closed};

/* ---- the port */

/* The longest frame that a client may send: the largest request of any model. */
static uint32_t door_most(const struct fleet_agent *a)
{
    uint64_t most = a->o.engine->ops->largest(a->o.engine) + sizeof(struct fleet_request);
    return most < DOOR_FRAME ? DOOR_FRAME : most < FLEET_MAX_FRAME ? (uint32_t)most : FLEET_MAX_FRAME;
}

int agent_door_open(struct fleet_agent *a)
{
    const struct fleet_conn_opts opts = {
        .role = FLEET_IS_WORKER,
        .peers = 1u << FLEET_IS_CLIENT,
        .fleet = a->fleet,
        .name = a->name,
        .id = a->id,
        .token = a->token,
        .most = door_most(a),
        .backlog = a->o.backlog ? a->o.backlog : DOOR_BACKLOG,
        .connections = a->o.connections ? a->o.connections : DOOR_CONNECTIONS,
    };
    a->stranger = (struct agent_guest){a, false};
    return fleet_listen(a->o.loop, &opts, a->o.listen, &door_handler, &a->stranger, &a->listener);
}

void agent_door_close(struct fleet_agent *a, const char *why)
{
    fleet_listener_close(a->listener);
    a->listener = NULL;
    while (a->clients.next != &a->clients) {
        struct door_client *k = AGENT_OF(struct door_client, ring, a->clients.next);
        door_end(k, 0, why);
    }
}
