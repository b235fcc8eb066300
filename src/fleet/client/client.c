/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: a client's thread, and the doors of other threads to it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/fleet/client/rdma.h"

#define CLIENT_PATIENCE_NS (10ll * FLEET_SECOND)

enum { CLIENT_WAITING = 4096 };

static int64_t client_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * FLEET_SECOND + t.tv_nsec;
}

/* xorshift64*, from a secret seed */
uint32_t fleet_client_random(struct fleet_client *c, uint32_t below)
{
    c->random ^= c->random >> 12;
    c->random ^= c->random << 25;
    c->random ^= c->random >> 27;
    uint64_t high = (c->random * 0x2545f4914f6cdd1du) >> 32;
    return (uint32_t)(high * below >> 32);
}

/* ---- models ---- */

static struct fleet_client_model *client_known(struct fleet_client *c, const char *name, uint32_t version)
{
    struct fleet_entry *e = fleet_table_find(&c->models, fleet_table_hash(c->seed, name, strlen(name)));
    for (; e; e = fleet_table_next(e)) {
        struct fleet_client_model *m = (struct fleet_client_model *)e;
        if (!strcmp(m->name, name) && (m->version == version || version == UINT32_MAX)) return m;
    }
    return NULL;
}

struct fleet_client_model *fleet_client_named(struct fleet_client *c, const char *name)
{
    if (!fleet_text_ok(name, FLEET_MODEL)) return NULL;
    pthread_mutex_lock(&c->lock);
    struct fleet_client_model *m = client_known(c, name, UINT32_MAX);
    pthread_mutex_unlock(&c->lock);
    return m;
}

static void client_model_begins(void *ctx)
{
    struct fleet_client_model *m = ctx;
    m->client->stats.models++;
    m->used_at = fleet_loop_now(m->client->loop);
    fleet_demand_tell(m);
}

static int client_model_make(struct fleet_client *c, const char *name, uint32_t version,
                             struct fleet_client_model **out)
{
    struct fleet_client_model *m = calloc(1, sizeof *m);
    if (!m) return -ENOMEM;
    m->client = c;
    m->version = version;
    memcpy(m->name, name, strlen(name) + 1);
    int err = fleet_table_add(&c->models, &m->entry, fleet_table_hash(c->seed, name, strlen(name)));
    if (err) {
        free(m);
        return err;
    }
    m->next = c->all;
    c->all = m;
    *out = m;
    return fleet_loop_call(c->loop, client_model_begins, m); /* without memory its first request begins it */
}

int fleet_client_model(struct fleet_client *c, const char *name, uint32_t version,
                       struct fleet_client_model **out)
{
    char field[FLEET_MODEL] = {0};
    int err = 0;
    if (!name || !*name || strlen(name) >= sizeof field ||
        !fleet_text_ok(memcpy(field, name, strlen(name) + 1), sizeof field))
        return gw_error(-EINVAL, "fleet: a model's name is UTF-8 of 1 to %d bytes", FLEET_MODEL - 1);
    pthread_mutex_lock(&c->lock);
    *out = client_known(c, name, version);
    if (!*out) err = client_model_make(c, name, version, out);
    pthread_mutex_unlock(&c->lock);
    return *out || !err ? 0 : gw_error_errno(err, "fleet: model %s", name);
}

/* ---- requests ---- */

static void client_take_inbox(void *ctx)
{
    struct fleet_client *c = ctx;
    pthread_mutex_lock(&c->lock);
    struct fleet_query *j = c->inbox.first;
    c->inbox = (struct fleet_queries){0};
    pthread_mutex_unlock(&c->lock);
    while (j) {
        struct fleet_query *next = j->next;
        fleet_query_begin(j);
        j = next;
    }
}

static int client_leave(struct fleet_client_model *m, struct fleet_query *j)
{
    struct fleet_client *c = m->client;
    int err = 0;
    j->model = m;
    j->begun_at = client_clock();
    pthread_mutex_lock(&c->lock);
    if (c->ended)
        err = -EIO;
    else if (!c->inbox.first)
        err = fleet_loop_call(c->loop, client_take_inbox, c);
    if (!err) fleet_queries_add(&c->inbox, j);
    pthread_mutex_unlock(&c->lock);
    if (!err) return 0;
    free(j);
    return gw_error_errno(err, "fleet: a request for model %s", m->name);
}

int fleet_client_submit(struct fleet_client_model *m, const struct fleet_client_request *r)
{
    if (!r->done || (!r->in && r->bytes) || r->bytes > FLEET_MAX_FRAME - sizeof(struct fleet_request))
        return gw_error(-EINVAL, "fleet: a request of %llu bytes; it may have %d MiB",
                        (unsigned long long)r->bytes, FLEET_MAX_FRAME >> 20);
    struct fleet_query *j = calloc(1, sizeof *j);
    if (!j) return gw_error_errno(-ENOMEM, "fleet: a request");
    j->r = *r;
    if (!j->r.rows) j->r.rows = 1;
    return client_leave(m, j);
}

int fleet_client_describe(struct fleet_client_model *m, int64_t deadline_at,
                          void (*done)(void *ctx, const struct fleet_client_reply *reply), void *ctx)
{
    struct fleet_query *j = calloc(1, sizeof *j);
    if (!j) return gw_error_errno(-ENOMEM, "fleet: a request");
    j->r = (struct fleet_client_request){.rows = 1, .deadline_at = deadline_at, .done = done, .ctx = ctx};
    j->describes = true;
    return client_leave(m, j);
}

/* ---- statistics ---- */

struct client_question {
    struct fleet_client *c;
    struct fleet_client_stats *out;
    bool done;
};

static void client_answer_stats(void *ctx)
{
    struct client_question *q = ctx;
    *q->out = q->c->stats;
    pthread_mutex_lock(&q->c->lock);
    q->done = true;
    pthread_cond_broadcast(&q->c->answered);
    pthread_mutex_unlock(&q->c->lock);
}

void fleet_client_stats(struct fleet_client *c, struct fleet_client_stats *out)
{
    struct client_question q = {.c = c, .out = out};
    if (pthread_equal(pthread_self(), c->thread)) {
        *out = c->stats;
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (!c->ended && !fleet_loop_call(c->loop, client_answer_stats, &q))
        while (!q.done && !c->ended) pthread_cond_wait(&c->answered, &c->lock);
    if (!q.done) *out = (struct fleet_client_stats){0};
    pthread_mutex_unlock(&c->lock);
}

/* ---- its begin and its end ---- */

static void client_cancel(struct fleet_queries *l, int err, const char *why)
{
    while (l->first) {
        struct fleet_query *j = l->first;
        if (j->state == FLEET_QUERY_FLIES && !fleet_query_landed(j)) continue;
        fleet_query_fail(j, err, why, 0);
    }
}

/* All requests end; new ones are refused. */
static void client_end_all(struct fleet_client *c, int err, const char *why)
{
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    struct fleet_query *j = c->inbox.first;
    c->inbox = (struct fleet_queries){0};
    pthread_cond_broadcast(&c->answered);
    pthread_mutex_unlock(&c->lock);
    for (struct fleet_query *next; j; j = next) {
        next = j->next;
        fleet_query_fail(j, err, why, 0);
    }
    for (struct fleet_client_model *m = c->all; m; m = m->next) client_cancel(&m->waiting, err, why);
    for (uint32_t i = 0; i < c->queries; i++) {
        j = c->query[i].query;
        if (j && fleet_query_landed(j)) fleet_query_fail(j, err, why, 0);
    }
}

static void *client_run(void *ctx)
{
    struct fleet_client *c = ctx;
    int err = fleet_loop_run(c->loop, INT64_MAX);
    if (err)
        client_end_all(c, err, "the client's thread cannot go on");
    else
        client_end_all(c, -ECANCELED, "the client is being closed");
    return NULL;
}

static int client_options(struct fleet_client *c, const struct fleet_client_opts *o)
{
    const char *fleet = o->fleet ? o->fleet : "default", *name = o->name ? o->name : "";
    if (strlen(fleet) >= sizeof c->fleet || strlen(name) >= sizeof c->name)
        return gw_error(-EINVAL, "fleet: names have at most %d bytes", FLEET_NAME - 1);
    strcpy(c->fleet, fleet);
    strcpy(c->name, name);
    c->token = o->token ? strdup(o->token) : NULL;
    c->patience_ns = o->patience_ns > 0 ? o->patience_ns : CLIENT_PATIENCE_NS;
    c->rdma = o->rdma != 0;
    c->max_waiting = o->max_waiting ? o->max_waiting : CLIENT_WAITING;
    c->max_answer = o->max_answer && o->max_answer < FLEET_MAX_FRAME ? o->max_answer : FLEET_MAX_FRAME;
    if (getrandom(c->id, sizeof c->id, 0) != sizeof c->id ||
        getrandom(&c->seed, sizeof c->seed, 0) != sizeof c->seed)
        return gw_error_errno(-EIO, "fleet: random numbers");
    c->random = c->seed | 1;
    return o->token && !c->token ? gw_error_errno(-ENOMEM, "fleet client") : 0;
}

/* Signals are the program's other threads'. */
static int client_start(struct fleet_client *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = -pthread_create(&c->thread, NULL, client_run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? gw_error_errno(err, "fleet: the client's thread") : 0;
}

static void client_free(struct fleet_client *c)
{
    fleet_found_end(c);
    fleet_rdma_end_all(c);
    for (uint32_t i = 0; i < c->leases.slots; i++)
        while (c->leases.slot[i]) fleet_lease_drop((struct fleet_holding *)c->leases.slot[i]);
    for (uint32_t i = 0; i < c->peers.slots; i++)
        while (c->peers.slot[i]) fleet_peer_free((struct fleet_peer *)c->peers.slot[i]);
    fleet_loop_destroy(c->loop);
    for (struct fleet_client_model *m = c->all, *next; m; m = next) {
        next = m->next;
        free(m->held[0].at);
        free(m->held[1].at);
        free(m->json);
        free(m);
    }
    fleet_table_free(&c->leases);
    fleet_table_free(&c->peers);
    fleet_table_free(&c->models);
    fleet_leader_end(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->answered);
    free(c->query);
    free(c->token);
    free(c);
}

int fleet_client_open(const struct fleet_client_opts *opts, struct fleet_client **out)
{
    struct fleet_client *c = calloc(1, sizeof *c);
    if (!c) return gw_error_errno(-ENOMEM, "fleet client");
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->answered, NULL);
    int err = client_options(c, opts);
    if (!err) err = fleet_loop_create(&c->loop);
    if (!err) err = fleet_leader_begin(c, opts->controllers, opts->etcd);
    if (!err) err = client_start(c);
    if (err) {
        client_free(c);
        return err;
    }
    *out = c;
    return 0;
}

static void client_stop(void *ctx)
{
    fleet_loop_stop(ctx);
}

void fleet_client_close(struct fleet_client *c)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!c) return;
    while (fleet_loop_call(c->loop, client_stop, c->loop)) nanosleep(&pause, NULL); /* for memory */
    pthread_join(c->thread, NULL);
    client_free(c);
}
