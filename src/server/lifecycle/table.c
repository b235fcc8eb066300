/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions, and who holds which. */
#include "src/server/lifecycle/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/door/log.h"
#include "src/trace/trace.h"

#define ASK_NS           30000000000u /* after this time without requests a session's peer is asked for, or sooner: */
#define GW_SESSION_SHOWN 9            /* bytes of an id that logs have: a reader cannot use it */
#define ASKS             4            /* so often within the time after which it is idle */

struct gw_table_session {
    struct gw_table_session *next;
    const void *connection;
    struct gw_worker *worker;
    uint32_t index;
    int opening; /* a thread is about to fill in the index: no other touches it */
    uint64_t used, asked;
    uint32_t activity; /* as last seen; 0: it has had no request */
    uint64_t events;   /* requests that came and answers that left, so far as seen */
    uint64_t opened;
    int routed; /* the route must learn of its end */
    uint32_t qpn;
    uint8_t client_gid[16];
    char who[GW_WHO_TEXT];
    char id[GW_SESSION_ID];
};

int gw_table_init(struct gw_table *t, uint32_t max_each, uint64_t unused_ns, uint64_t idle_ns)
{
    uint32_t random;
    *t = (struct gw_table){.max_each = max_each, .unused_ns = unused_ns, .idle_ns = idle_ns};
    pthread_mutex_init(&t->lock, NULL);
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return gw_error_errno(-errno, "sessions: no random numbers");
    snprintf(t->server, sizeof(t->server), "%08x", random);
    t->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return t->news_fd < 0 ? gw_error_errno(-errno, "sessions: cannot make an eventfd") : 0;
}

void gw_table_free(struct gw_table *t)
{
    for (struct gw_table_session *s = t->first, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    if (t->news_fd >= 0) close(t->news_fd);
    pthread_mutex_destroy(&t->lock);
    memset(t, 0, sizeof(*t));
    t->news_fd = -1;
}

/* ---- the list ---- */

/* Takes the first session that fits out of the list. The caller closes it; no other thread can. */
static struct gw_table_session *serve_table_take(struct gw_table *t,
                                                 bool (*fits)(struct gw_table_session *s, const void *arg),
                                                 const void *arg)
{
    struct gw_table_session **link, *s;
    pthread_mutex_lock(&t->lock);
    for (link = &t->first; (s = *link); link = &s->next)
        if (!s->opening && fits(s, arg)) break;
    if (s) *link = s->next;
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* Adds up what has happened since the last look. Returns whether anything has. */
static bool serve_table_look_at(struct gw_table_session *s, uint32_t activity)
{
    uint32_t more = activity - s->activity;
    s->activity = activity;
    s->events += more;
    return more != 0;
}

static void log_session(const struct gw_table *t, const struct gw_table_session *s, const char *reason)
{
    struct gw_access_session line = {.client = s->who,
                                     .model = gw_worker_name(s->worker),
                                     .version = gw_worker_version(s->worker),
                                     .reason = reason,
                                     .requests = (s->events + 1) / 2,
                                     .lasted_ns = reason ? gw_deadline(0) - s->opened : 0};
    char id[GW_SESSION_SHOWN];
    snprintf(id, sizeof(id), "%.8s", s->id);
    line.session = id;
    GW_TRACE(server, session, line.model, s->index, line.client, line.session, reason);
    gw_access_log_session(t->access, &line);
    gw_log(GW_LOG_DEBUG, "session %s of model %s %s%s", id, line.model, reason ? "closed: " : "opened",
           reason ? reason : "");
}

/* Should the call fail: the housekeeper comes by now and then. */
static void call_housekeeper(const struct gw_table *t)
{
    const uint64_t one = 1;
    if (write(t->news_fd, &one, sizeof(one)) < 0) return;
}

static void serve_table_end(struct gw_table *t, struct gw_table_session *s, const char *reason)
{
    const struct gw_table_route *route =
        __atomic_load_n(&t->route, __ATOMIC_ACQUIRE); /* its ctx is seen whole */
    uint32_t activity;
    gw_session_heard(gw_worker_sessions(s->worker), s->index, &activity);
    serve_table_look_at(s, activity);
    log_session(t, s, reason);
    gw_session_close(gw_worker_sessions(s->worker), s->index);
    if (s->routed && route) route->close(route->ctx, s->client_gid, s->qpn);
    free(s);
    call_housekeeper(t);
}

static bool has_id(struct gw_table_session *s, const void *arg)
{
    return !strcmp(s->id, arg);
}
static bool is_of(struct gw_table_session *s, const void *arg)
{
    return s->connection == arg;
}

static bool serves(struct gw_table_session *s, const void *arg)
{
    return s->worker == arg;
}

/* The id ends with the server's: one address may have several servers, and only this one can tell
 * that the session is over. The rest cannot be guessed. */
static struct gw_table_session *new_session(const struct gw_table *t, struct gw_worker *w,
                                            const void *connection, const char *who)
{
    uint8_t random[(GW_SESSION_ID - GW_SERVER_ID) / 2];
    struct gw_table_session *s = calloc(1, sizeof(*s));
    if (!s || getrandom(random, sizeof(random), 0) != sizeof(random)) {
        free(s);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(random); i++) snprintf(s->id + 2 * i, 3, "%02x", random[i]);
    snprintf(s->id + 2 * sizeof(random), GW_SERVER_ID, "%s", t->server);
    snprintf(s->who, sizeof(s->who), "%s", who);
    s->connection = connection;
    s->worker = w;
    s->opening = 1;
    return s;
}

/* In the list from now on, so that it counts; 0 when its client has too many. */
static int serve_table_enlist(struct gw_table *t, struct gw_table_session *s)
{
    uint32_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (const struct gw_table_session *o = t->first; o; o = o->next)
        n += o->worker == s->worker && !strcmp(o->who, s->who);
    int fits = n < t->max_each || t->max_each >= gw_session_pool_size(gw_worker_sessions(s->worker));
    if (fits) {
        s->next = t->first;
        t->first = s;
    }
    pthread_mutex_unlock(&t->lock);
    return fits;
}

/* The session's index is known, and the others may see it; or it could not be opened. */
static void serve_table_settle(struct gw_table *t, struct gw_table_session *s, int err, uint32_t index)
{
    s->index = index; /* no other thread touches it yet, or closes it */
    if (!err) log_session(t, s, NULL);
    pthread_mutex_lock(&t->lock);
    s->opening = 0;
    s->used = s->asked = s->opened = gw_deadline(0);
    struct gw_table_session **link = &t->first;
    while (err && *link != s) link = &(*link)->next;
    if (err) *link = s->next;
    pthread_mutex_unlock(&t->lock);
    if (err) free(s);
}

/* ---- what clients ask for ---- */

void gw_table_set_route(struct gw_table *t, const struct gw_table_route *route)
{
    __atomic_store_n(&t->route, route, __ATOMIC_RELEASE); /* what ctx points to is written before */
}

/* Nothing comes to the session before the load balancer in front has its queue pair. */
static int tell_route(const struct gw_table *t, struct gw_table_session *s,
                      const struct gw_session_wish *wish, struct gw_session_grant *grant)
{
    const struct gw_table_route *route = __atomic_load_n(&t->route, __ATOMIC_ACQUIRE);
    s->qpn = grant->endpoint.qpn;
    memcpy(s->client_gid, wish->endpoint.gid, sizeof(s->client_gid));
    int wants = route ? route->open(route->ctx, wish, &grant->endpoint) : 0;
    s->routed = wants > 0;
    return wants < 0 ? wants : 0;
}

/* A session that is not here: has it ended, or is it another server's? */
static int serve_table_unknown(const struct gw_table *t, const char *id)
{
    size_t n = strlen(id), own = GW_SERVER_ID - 1;
    if (n != GW_SESSION_ID - 1 || !strcmp(id + n - own, t->server))
        return gw_error(-ENOENT, "no such session: it has expired or was closed");
    return gw_error(-ESTALE, "another server has that session, or had it");
}

int gw_table_add(struct gw_table *t, struct gw_worker *w, const struct gw_session_wish *wish,
                 const struct gw_table_client *client, struct gw_session_grant *grant, char id[GW_SESSION_ID])
{
    struct gw_table_session *s = new_session(t, w, client->connection, client->who);
    if (!s) return gw_error(-ENOMEM, "out of memory");
    if (!serve_table_enlist(t, s)) {
        free(s);
        return gw_error(-EDQUOT,
                        "%s has %u sessions of model %s, as many as one client may (--sessions-per-client)",
                        client->who, t->max_each, gw_worker_name(w));
    }
    memcpy(id, s->id, GW_SESSION_ID);
    grant->index = 0;
    int err = gw_session_open(gw_worker_sessions(w), wish, grant);
    if (!err) {
        err = tell_route(t, s, wish, grant);
        if (err) gw_session_close(gw_worker_sessions(w), grant->index);
        if (err) call_housekeeper(t);
    }
    serve_table_settle(t, s, err, grant->index);
    return err;
}

int gw_table_renew(struct gw_table *t, const char *id)
{
    int err = -ENOENT;
    uint32_t activity;
    pthread_mutex_lock(&t->lock);
    for (struct gw_table_session *s = t->first; s; s = s->next) {
        if (s->opening || strcmp(s->id, id)) continue;
        gw_session_heard(gw_worker_sessions(s->worker), s->index, &activity);
        err = activity ? 0 : -EBADR;
        if (activity) s->used = gw_deadline(0);
    }
    pthread_mutex_unlock(&t->lock);
    if (err == -ENOENT) return serve_table_unknown(t, id);
    return err ? gw_error(err, "the session has had no request yet: it cannot be kept, open another one") : 0;
}

int gw_table_close(struct gw_table *t, const char *id)
{
    struct gw_table_session *s = serve_table_take(t, has_id, id);
    if (!s) return serve_table_unknown(t, id);
    serve_table_end(t, s, "its client has closed it");
    return 0;
}

void gw_table_close_all_of(struct gw_table *t, const void *connection)
{
    struct gw_table_session *s;
    while ((s = serve_table_take(t, is_of, connection)))
        serve_table_end(t, s, "its client's connection has ended");
}

void gw_table_close_model(struct gw_table *t, const struct gw_worker *w)
{
    struct gw_table_session *s;
    while ((s = serve_table_take(t, serves, w))) serve_table_end(t, s, "its model is stopped or replaced");
}

int gw_table_holds(struct gw_table *t, const void *connection)
{
    int holds = 0;
    pthread_mutex_lock(&t->lock);
    for (const struct gw_table_session *s = t->first; s && !holds; s = s->next)
        holds = s->connection == connection;
    pthread_mutex_unlock(&t->lock);
    return holds;
}

/* ---- housekeeping ---- */

/* The housekeeper's look at the sessions of one worker. */
struct look {
    struct gw_table *table;
    const struct gw_worker *worker;
    int broken; /* a queue pair of the worker's has failed */
    char why[200];
};

/* Has it not been used for too long? It is asked first: its loop may have been at work, and not have seen
 * its requests. */
static bool is_idle(struct gw_table_session *s, struct look *l)
{
    struct gw_session_pool *pool = gw_worker_sessions(s->worker);
    uint64_t now = gw_deadline(0), limit = l->table->unused_ns;
    uint32_t activity;
    bool heard = gw_session_heard(pool, s->index, &activity);
    if (serve_table_look_at(s, activity)) s->used = now;
    if (activity) limit = l->table->idle_ns ? l->table->idle_ns : UINT64_MAX - now;
    uint64_t quiet = limit / ASKS < ASK_NS ? limit / ASKS : ASK_NS;
    int late = now - s->used >= limit;
    if (late && s->asked >= s->used + limit) {
        snprintf(l->why, sizeof(l->why),
                 activity ? "it has had no request for %llu s" : "no request came within %llu s",
                 (unsigned long long)limit / 1000000000u);
        return heard;
    }
    if (late || (activity && now - s->used >= quiet && now - s->asked >= quiet)) {
        s->asked = now;
        gw_session_ask(pool, s->index);
    }
    return false;
}

static bool serve_table_is_over(struct gw_table_session *s, const void *arg)
{
    struct look *l = (struct look *)arg;
    struct gw_fault fault;
    if (s->worker != l->worker) return false;
    if (!l->broken || !gw_session_failed(gw_worker_sessions(s->worker), s->index, &fault))
        return is_idle(s, l);
    gw_fault_text(&fault, l->why, sizeof(l->why));
    return true;
}

static void say_failures(const struct gw_worker *w)
{
    uint64_t failures = gw_session_pool_failures(gw_worker_sessions(w));
    if (failures)
        gw_log(GW_LOG_ERROR, "model %s could not answer %llu requests: %s", gw_worker_name(w),
               (unsigned long long)failures, strerror(-gw_worker_run_error(w)));
}

uint32_t gw_table_tend(struct gw_table *t, struct gw_worker *const *workers, size_t count)
{
    struct gw_table_session *s;
    uint32_t left = 0;
    uint64_t news;
    if (read(t->news_fd, &news, sizeof(news)) < 0) news = 0; /* empty, as often */
    for (size_t i = 0; i < count; i++) {
        struct gw_session_pool *pool = gw_worker_sessions(workers[i]);
        struct look l = {t, workers[i], gw_session_pool_broken(pool), ""};
        say_failures(workers[i]);
        while ((s = serve_table_take(t, serve_table_is_over, &l))) {
            gw_say(&t->said, "session %.8s of model %s closed: %s", s->id, gw_worker_name(workers[i]), l.why);
            serve_table_end(t, s, l.why);
        }
        left += gw_session_pool_tend(pool);
    }
    return left;
}
