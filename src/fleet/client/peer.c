/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c: the workers that a client has leases of: connections to them, requests and answers over TCP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/client/rdma.h"
#include "src/server/wire/wire.h"

#define PEER_PAUSE_NS   20000000             /* before the first dial after a loss; it doubles */
#define PEER_LONGEST_NS FLEET_SECOND         /* pause */
#define PEER_KEPT_NS    (5ll * FLEET_SECOND) /* without a lease */
#define PEER_AVOID_NS   100000000            /* a lease that was refused without a better time */

/* ---- its life ---- */

static void peer_dial(void *ctx);

static struct fleet_peer *peer_find(struct fleet_client *c, const uint8_t *id, uint64_t hash)
{
    struct fleet_entry *e = fleet_table_find(&c->peers, hash);
    for (; e; e = fleet_table_next(e))
        if (!memcmp(((struct fleet_peer *)e)->id, id, FLEET_ID)) return (struct fleet_peer *)e;
    return NULL;
}

struct fleet_peer *fleet_peer_of(struct fleet_client *c, const struct fleet_granted *g)
{
    uint64_t hash = fleet_table_hash(c->seed, g->worker_id, FLEET_ID);
    struct fleet_peer *p = peer_find(c, g->worker_id, hash);
    if (p) {
        p->holds++;
        return p;
    }
    p = calloc(1, sizeof *p);
    if (!p || fleet_table_add(&c->peers, &p->entry, hash)) {
        free(p);
        return NULL;
    }
    p->client = c;
    p->serial = ++c->serial;
    p->holds = 1;
    memcpy(p->id, g->worker_id, FLEET_ID);
    memcpy(p->name, g->worker, sizeof p->name);
    memcpy(p->address, g->address, sizeof p->address);
    peer_dial(p);
    return p;
}

void fleet_peer_free(struct fleet_peer *p)
{
    struct fleet_client *c = p->client;
    p->holds = 1; /* the end of its session frees it no second time */
    fleet_rdma_end(p);
    fleet_timer_clear(c->loop, &p->timer);
    c->stats.workers -= p->open;
    if (p->conn) fleet_conn_close(p->conn, 0, NULL);
    fleet_table_remove(&c->peers, &p->entry);
    free(p);
}

static void peer_forget(void *ctx)
{
    struct fleet_peer *p = ctx;
    if (!p->holds && !p->flying.n) fleet_peer_free(p);
}

void fleet_peer_left(struct fleet_peer *p)
{
    struct fleet_client *c = p->client;
    if (--p->holds || p->flying.n) return;
    if (!p->conn ||
        fleet_timer_set(c->loop, &p->timer, fleet_loop_now(c->loop) + PEER_KEPT_NS, peer_forget, p))
        fleet_peer_free(p);
}

int64_t fleet_peer_way(const struct fleet_peer *p)
{
    int64_t offset, error;
    return p->open && !fleet_conn_clock(p->conn, &offset, &error) && error > 0 ? error : 0;
}

/* ---- when the connection is gone ---- */

static void peer_dial_later(struct fleet_peer *p)
{
    struct fleet_client *c = p->client;
    p->pause_ns = p->pause_ns ? 2 * p->pause_ns : PEER_PAUSE_NS;
    if (p->pause_ns > PEER_LONGEST_NS) p->pause_ns = PEER_LONGEST_NS;
    /* Without memory for a timer the next grant after its leases' ends makes another one. */
    fleet_timer_set(c->loop, &p->timer, fleet_loop_now(c->loop) + p->pause_ns, peer_dial, p);
}

void fleet_peer_lost_query(struct fleet_query *j)
{
    if (!fleet_query_landed(j)) return;
    j->refusal = -ECONNRESET;
    j->why = "the worker that had the request has gone";
    j->retry_ns = 0;
    fleet_query_again(j);
}

/* What it had is tried elsewhere. */
static void peer_lost(struct fleet_peer *p)
{
    p->client->stats.workers -= p->open;
    p->conn = NULL;
    p->open = false;
    p->holds++;
    fleet_rdma_end(p);
    while (p->flying.first) fleet_peer_lost_query(p->flying.first);
    peer_dial_later(p);
    fleet_peer_left(p);
}

/* It says what no worker says. */
static void peer_lies(struct fleet_peer *p, const char *why)
{
    fleet_conn_close(p->conn, -EPROTO, why);
    p->pause_ns = PEER_LONGEST_NS;
    peer_lost(p);
}

/* ---- answers ---- */

/* A refusal: what it says of the lease, and of the request's next try. */
static void peer_refused(struct fleet_query *j, const struct fleet_answer *a, int64_t now)
{
    struct fleet_holding *h = j->lease;
    int64_t retry = a->retry_ns > 0 && a->retry_ns < FLEET_SECOND * 10ll ? a->retry_ns : 0;
    j->refused_by = j->peer->serial;
    j->retry_ns = retry;
    j->refusal = -EAGAIN;
    j->later = a->status == GW_SERVE_NO_LEASE || a->status == GW_SERVE_OVER_BUDGET;
    switch (a->status) {
    case GW_SERVE_LATE:
        j->refusal = -ETIME;
        j->why = "refused: the answer would have come after its deadline";
        break;
    case GW_SERVE_NO_LEASE:
        j->why = "refused: the worker knows no such lease";
        fleet_lease_drop(h);
        break;
    case GW_SERVE_OVER_BUDGET:
        j->why = "refused: the lease's budget was used up";
        fleet_bucket_empty(&h->bucket, now + retry);
        break;
    default:
        j->why = a->status == GW_SERVE_CLOSING ? "refused: the worker is about to stop"
                                               : "refused: the model is not on that worker's GPU";
        h->avoid_at = now + (retry ? retry : PEER_AVOID_NS);
    }
}

static bool peer_is_refusal(uint32_t status)
{
    return status == GW_SERVE_LATE || status == GW_SERVE_NO_LEASE || status == GW_SERVE_OVER_BUDGET ||
           status == GW_SERVE_NOT_THERE || status == GW_SERVE_CLOSING;
}

static int peer_error_of(uint32_t status, const char **why)
{
    *why = "";
    switch (status) {
    case GW_SERVE_OK: return 0;
    case GW_SERVE_BAD_REQUEST: *why = "the worker refused the request's form"; return -EINVAL;
    case GW_SERVE_FAILED: *why = "the model failed; the worker's log says why"; return -EREMOTEIO;
    case GW_SERVE_RECALLED: *why = "it was taken back"; return -ECANCELED;
    default: *why = "the worker's answer has a status that does not exist"; return -EPROTO;
    }
}

static void peer_finish(struct fleet_peer *p, struct fleet_query *j, const struct fleet_answer *a,
                        const void *data)
{
    struct fleet_client_reply r = {.seen_at = fleet_loop_now(p->client->loop), .batch = a->batch};
    r.error = peer_error_of(a->status, &r.why);
    if (!r.error && j->r.deadline_at && r.seen_at > j->r.deadline_at) {
        r.error = -ETIME;
        r.why = "the answer came after the deadline";
    }
    if (!r.error) {
        r.data = data;
        r.bytes = a->bytes;
    }
    memcpy(r.worker, p->name, sizeof r.worker);
    if (a->started_at > a->arrived_at) r.queued_ns = a->started_at - a->arrived_at;
    if (a->done_at > a->started_at) r.model_ns = a->done_at - a->started_at;
    fleet_query_end(j, &r);
}

void fleet_peer_answered(struct fleet_peer *p, struct fleet_query *j, const struct fleet_answer *a,
                         const void *data)
{
    struct fleet_client_model *m = j->model;
    bool refused = peer_is_refusal(a->status);
    if (refused) peer_refused(j, a, fleet_loop_now(p->client->loop));
    if (fleet_query_landed(j)) {
        if (refused)
            fleet_query_again(j);
        else
            peer_finish(p, j, a, data);
    }
    if (m->waiting.n) fleet_query_drain(m);
}

static void peer_answer(struct fleet_peer *p, const struct fleet_frame *f, const void *body)
{
    const struct fleet_answer *a = FLEET_BODY(struct fleet_answer, f, body);
    struct fleet_query *j = a ? fleet_query_flying(p, a->id) : NULL;
    if (j && a->bytes == f->bytes - sizeof *a)
        fleet_peer_answered(p, j, a, a + 1);
    else
        peer_lies(p, j ? "an answer of the wrong length" : "an answer to no request");
}

/* Metadata; or NOTHING, as the worker has no such model. */
static void peer_described(struct fleet_peer *p, const struct fleet_frame *f, const void *body)
{
    bool has = f->kind == FLEET_DESCRIBED && f->bytes;
    struct fleet_query *j = p->flying.first;
    while (j && !(j->describes && j->seq == f->seq)) j = j->next;
    if (!j) {
        peer_lies(p, "metadata that was not asked for");
        return;
    }
    struct fleet_client_model *m = j->model;
    char *copy = has && !m->json ? malloc(f->bytes) : NULL;
    if (copy) {
        m->json = memcpy(copy, body, f->bytes);
        m->json_bytes = f->bytes;
    }
    if (!fleet_query_landed(j)) return;
    struct fleet_client_reply r = {.error = -ENOENT, .why = "the worker has no such model"};
    if (has) r = (struct fleet_client_reply){.why = "", .data = body, .bytes = f->bytes};
    r.seen_at = fleet_loop_now(p->client->loop);
    memcpy(r.worker, p->name, sizeof r.worker);
    fleet_query_end(j, &r);
}

/* ---- the connection ---- */

static void peer_open(void *ctx, struct fleet_conn *conn)
{
    struct fleet_peer *p = ctx;
    struct fleet_client *c = p->client;
    if (memcmp(fleet_conn_peer(conn)->id, p->id, FLEET_ID)) {
        /* It was started again: these leases are nothing to it. */
        fleet_conn_close(conn, 0, NULL);
        p->pause_ns = PEER_LONGEST_NS;
        peer_lost(p);
        return;
    }
    p->open = true;
    p->pause_ns = 0;
    c->stats.workers++;
    pthread_mutex_lock(&c->lock);
    struct fleet_client_model *m = c->all;
    pthread_mutex_unlock(&c->lock);
    for (; m; m = m->next)
        if (m->waiting.n) fleet_query_drain(m);
}

static void peer_message(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f, const void *body)
{
    struct fleet_peer *p = ctx;
    (void)conn;
    switch (f->kind) {
    case FLEET_ANSWER: peer_answer(p, f, body); break;
    case FLEET_DESCRIBED:
    case FLEET_NOTHING: peer_described(p, f, body); break;
    default: peer_lies(p, "a message that no worker sends to clients");
    }
}

static void peer_closed(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    (void)conn;
    (void)err;
    (void)why;
    peer_lost(ctx);
}

static const struct fleet_handler peer_handler = {peer_open, peer_message, peer_closed};

static void peer_dial(void *ctx)
{
    struct fleet_peer *p = ctx;
    struct fleet_client *c = p->client;
    struct fleet_conn_opts o;
    if (!p->holds) {
        fleet_peer_free(p);
        return;
    }
    fleet_leader_opts(c, FLEET_IS_WORKER, &o);
    if (fleet_dial(c->loop, &o, p->address, &peer_handler, p, &p->conn)) {
        p->conn = NULL;
        peer_dial_later(p);
    }
}

/* The worker counts from the request's arrival, and the answer has a way, too. */
uint64_t fleet_peer_budget(const struct fleet_peer *p, const struct fleet_query *j, int64_t now)
{
    if (!j->r.deadline_at) return 0;
    /* What is known of the way may be far too much, on a machine that was busy then. */
    int64_t left = j->r.deadline_at - now, ways = 2 * fleet_peer_way(p);
    return left > 4 ? (uint64_t)(left - (ways < left / 4 ? ways : left / 4)) : 1;
}

int fleet_peer_send(struct fleet_peer *p, struct fleet_query *j, int64_t now)
{
    j->written = !j->describes && fleet_rdma_send(p->rdma, j, now);
    if (j->written) {
        p->client->stats.written++;
        return 0;
    }
    if (j->describes) {
        struct fleet_describe d = {0};
        memcpy(d.model, j->model->name, sizeof d.model);
        return fleet_send(p->conn, FLEET_DESCRIBE, 0, &d, sizeof d, NULL, 0, &j->seq);
    }
    struct fleet_request q = {.lease = j->lease->number,
                              .rows = j->r.rows,
                              .key = j->lease->key,
                              .id = j->id,
                              .budget_ns = fleet_peer_budget(p, j, now),
                              .priority = j->r.priority,
                              .bytes = j->r.bytes};
    return fleet_send(p->conn, FLEET_REQUEST, 0, &q, sizeof q, j->r.in, j->r.bytes, NULL);
}
