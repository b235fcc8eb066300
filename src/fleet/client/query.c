/* SPDX-License-Identifier: Apache-2.0 */
/* query.c: the life of a request: it waits, flies, is refused and tried elsewhere, and ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/client/impl.h"
#include "src/server/wire/wire.h"

#define QUERY_NO_PLACE UINT32_MAX
#define QUERY_GAPS     (16 * GW_SERVE_ALIGN) /* between a request's tensors, at most */
#define QUERY_RETRY_NS 50000000              /* when none is known better: a round or two of the planner */

void fleet_queries_add(struct fleet_queries *l, struct fleet_query *j)
{
    j->next = NULL;
    j->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = j;
    l->last = j;
    l->n++;
}

void fleet_queries_take(struct fleet_queries *l, struct fleet_query *j)
{
    *(j->prev ? &j->prev->next : &l->first) = j->next;
    *(j->next ? &j->next->prev : &l->last) = j->prev;
    j->next = j->prev = NULL;
    l->n--;
}

/* ---- numbers of requests */

static int query_number(struct fleet_client *c, struct fleet_query *j)
{
    if (c->queries_free == QUERY_NO_PLACE || !c->queries) {
        uint32_t had = c->queries, n = had ? 2 * had : 64;
        struct fleet_query_place *more = realloc(c->query, n * sizeof *more);
        if (!more) return -ENOMEM;
        for (uint32_t i = had; i < n; i++)
            more[i] = (struct fleet_query_place){.next_free = i + 1 < n ? i + 1 : QUERY_NO_PLACE};
        c->query = more;
        c->queries = n;
        c->queries_free = had;
    }
    uint32_t at = c->queries_free;
    struct fleet_query_place *p = &c->query[at];
    c->queries_free = p->next_free;
    p->query = j;
    p->generation++;
    j->id = (uint64_t)p->generation << 32 | at;
    return 0;
}

static void query_free(struct fleet_query *j)
{
    struct fleet_client *c = j->model->client;
    uint32_t at = (uint32_t)j->id;
    if (j->id) {
        c->query[at].query = NULL;
        c->query[at].next_free = c->queries_free;
        c->queries_free = at;
    }
    free(j);
}

struct fleet_query *fleet_query_flying(const struct fleet_peer *p, uint64_t id)
{
    const struct fleet_client *c = p->client;
    uint32_t at = (uint32_t)id;
    struct fleet_query *j = at < c->queries ? c->query[at].query : NULL;
    return j && j->id == id && j->state == FLEET_QUERY_FLIES && j->peer == p && !j->describes && !j->written
               ? j
               : NULL;
}

/* ---- its end */

static void query_count(const struct fleet_query *j, int err)
{
    struct fleet_client_stats *s = &j->model->client->stats;
    struct fleet_demand_count *d = &j->model->count;
    if (j->describes) return;
    switch (err) {
    case 0: s->answered++, d->answered++; break;
    case -ETIME:
    case -ETIMEDOUT: s->late++, d->late++; break;
    case -ECONNRESET: s->lost++, d->late++; break;
    default: s->refused++, d->refused++;
    }
}

bool fleet_query_landed(struct fleet_query *j)
{
    struct fleet_client *c = j->model->client;
    struct fleet_holding *h = j->lease;
    bool told = j->told;
    fleet_queries_take(&j->peer->flying, j);
    j->state = FLEET_QUERY_NEW;
    j->lease = NULL;
    if (!j->describes) {
        c->stats.flying--;
        j->model->flying--;
        h->flying--;
        fleet_lease_put(h);
    }
    if (told) query_free(j);
    return !told;
}

void fleet_query_end(struct fleet_query *j, const struct fleet_client_reply *reply)
{
    struct fleet_client *c = j->model->client;
    struct fleet_client_reply r = *reply;
    fleet_timer_clear(c->loop, &j->timer);
    if (j->state == FLEET_QUERY_WAITS) {
        fleet_queries_take(&j->model->waiting, j);
        c->stats.waiting -= !j->describes;
        j->state = FLEET_QUERY_NEW;
    }
    r.rows = j->r.rows;
    r.tries = j->tries;
    r.begun_at = j->begun_at;
    r.sent_at = j->sent_at;
    query_count(j, r.error);
    j->told = true;
    j->r.done(j->r.ctx, &r);
    if (j->state != FLEET_QUERY_FLIES) query_free(j);
}

void fleet_query_fail(struct fleet_query *j, int err, const char *why, int64_t retry_ns)
{
    struct fleet_client_reply r = {.error = err, .why = why, .retry_ns = retry_ns};
    r.seen_at = fleet_loop_now(j->model->client->loop);
    fleet_query_end(j, &r);
}

/* Refused, or not sent at all; a refusal without a better time is worth another try soon. */
static void query_give_up(struct fleet_query *j)
{
    const struct fleet_client_model *m = j->model;
    if (j->refusal) {
        fleet_query_fail(j, j->refusal, j->why, j->retry_ns);
        return;
    }
    const char *why = m->held[0].n + m->held[1].n ? "no lease had a free slot and budget in time"
                      : m->why                    ? m->why
                      : m->client->leader.welcome ? "the controller has granted no lease in time"
                      : m->client->leader.why[0]  ? m->client->leader.why
                                                  : "no controller of the fleet answers";
    fleet_query_fail(j, -EAGAIN, why, m->retry_ns ? m->retry_ns : QUERY_RETRY_NS);
}

/* ---- when time is up */

static void query_is_due(void *ctx)
{
    struct fleet_query *j = ctx;
    if (j->state == FLEET_QUERY_WAITS) {
        query_give_up(j);
        return;
    }
    if (j->lease) j->lease->avoid_at = j->limit_at + FLEET_SECOND / 10;
    if (j->r.deadline_at)
        fleet_query_fail(j, -ETIME, "the worker has not answered by the deadline", 0);
    else
        fleet_query_fail(j, -ETIMEDOUT, "the worker has not answered", 0);
}

/* The last moment at which sending makes sense. */
static int64_t query_last_call(const struct fleet_query *j)
{
    return j->describes || !j->r.deadline_at ? j->limit_at : j->limit_at - j->model->exec_ns;
}

static int query_set_timer(struct fleet_query *j, int64_t at)
{
    return fleet_timer_set(j->model->client->loop, &j->timer, at, query_is_due, j);
}

/* ---- to a worker */

static bool query_send(struct fleet_query *j, struct fleet_holding *h, int64_t now)
{
    struct fleet_client *c = j->model->client;
    j->lease = h;
    if (fleet_peer_send(h->peer, j, now) || query_set_timer(j, j->limit_at)) {
        j->lease = NULL;
        h->avoid_at = now + FLEET_SECOND / 10; /* the connection is about to be closed */
        return false;
    }
    j->peer = h->peer;
    j->state = FLEET_QUERY_FLIES;
    fleet_queries_add(&h->peer->flying, j);
    j->sent_at = now;
    if (j->describes) {
        j->lease = NULL;
        return true;
    }
    h->flying++;
    c->stats.flying++;
    j->tries++;
    if (++j->model->flying > j->model->count.flying) j->model->count.flying = j->model->flying;
    return true;
}

static void query_wake(void *ctx)
{
    fleet_query_drain(ctx);
}

/* False: there is no lease for it now. */
static bool query_try(struct fleet_query *j)
{
    struct fleet_client_model *m = j->model;
    int64_t now = fleet_loop_now(m->client->loop), when = 0;
    struct fleet_holding *h = fleet_lease_pick(j, now, &when);
    if (h) return query_send(j, h, now);
    if (when && (!m->wake.at || m->wake.at > when)) /* without memory, the next answer wakes it */
        fleet_timer_set(m->client->loop, &m->wake, when, query_wake, m);
    return false;
}

void fleet_query_drain(struct fleet_client_model *m)
{
    struct fleet_client *c = m->client;
    while (m->waiting.first) {
        struct fleet_query *j = m->waiting.first;
        fleet_queries_take(&m->waiting, j);
        c->stats.waiting -= !j->describes;
        j->state = FLEET_QUERY_NEW;
        if (query_try(j)) continue;
        /* It stays the first. */
        j->next = m->waiting.first;
        *(j->next ? &j->next->prev : &m->waiting.last) = j;
        m->waiting.first = j;
        m->waiting.n++;
        c->stats.waiting += !j->describes;
        j->state = FLEET_QUERY_WAITS;
        return;
    }
    if (m->wake.at) fleet_timer_clear(c->loop, &m->wake);
}

static void query_wait(struct fleet_query *j)
{
    struct fleet_client_model *m = j->model;
    const struct fleet_leader *l = &m->client->leader;
    int64_t last = query_last_call(j);
    if (l->refused) {
        fleet_query_fail(j, -EACCES, l->why, 0);
        return;
    }
    if (m->waiting.n >= m->client->max_waiting) {
        fleet_query_fail(j, -EAGAIN, "too many requests wait for a lease of this model", QUERY_RETRY_NS);
        return;
    }
    fleet_queries_add(&m->waiting, j);
    m->client->stats.waiting += !j->describes;
    j->state = FLEET_QUERY_WAITS;
    if (query_set_timer(j, last)) fleet_query_fail(j, -ENOMEM, "no memory for a timer", 0);
}

void fleet_query_again(struct fleet_query *j)
{
    struct fleet_client_model *m = j->model;
    int64_t now = fleet_loop_now(m->client->loop);
    bool died = j->refusal == -ECONNRESET;
    if (j->tries >= (died ? FLEET_QUERY_DEATHS : FLEET_QUERY_TRIES) || now >= query_last_call(j)) {
        query_give_up(j);
        return;
    }
    if (!j->describes) m->client->stats.retried++;
    if (query_try(j)) return;
    if (died || j->describes || j->later) {
        j->refused_by = 0;
        query_wait(j);
    } else {
        query_give_up(j); /* one that was refused does not wait for another lease: its client knows sooner */
    }
}

/* ---- its begin */

static bool query_too_long(const struct fleet_query *j)
{
    uint64_t sample = j->model->sample_bytes;
    return sample && j->r.bytes > QUERY_GAPS && (j->r.bytes - QUERY_GAPS) / j->r.rows > sample;
}

static void query_describe(struct fleet_query *j)
{
    const struct fleet_client_model *m = j->model;
    if (!m->json) {
        if (m->waiting.n || !query_try(j)) query_wait(j);
        return;
    }
    struct fleet_client_reply r = {.why = "", .data = m->json, .bytes = m->json_bytes};
    r.seen_at = fleet_loop_now(m->client->loop);
    fleet_query_end(j, &r);
}

void fleet_query_begin(struct fleet_query *j)
{
    struct fleet_client_model *m = j->model;
    struct fleet_client *c = m->client;
    int64_t now = fleet_loop_now(c->loop);
    j->limit_at = j->r.deadline_at ? j->r.deadline_at : j->begun_at + c->patience_ns;
    if (!j->describes) {
        c->stats.offered++;
        m->count.offered++;
        if (j->r.deadline_at) m->deadline_ns = j->r.deadline_at - j->begun_at;
    }
    fleet_demand_used(m, now);
    if (now < m->absent_until && !m->held[0].n && !m->held[1].n) {
        fleet_query_fail(j, -ENOENT, "no worker of the fleet has such a model", m->absent_until - now);
    } else if (query_number(c, j)) {
        fleet_query_fail(j, -ENOMEM, "no memory for a request", 0);
    } else if (j->describes) {
        query_describe(j);
    } else if (!fleet_admit_one(&m->admit, j->r.deadline_at ? m->deadline_ns : INT64_MAX)) {
        c->stats.shed++;
        fleet_query_fail(j, -EAGAIN, "the fleet sheds requests of this deadline: it has too much to do",
                         m->retry_ns ? m->retry_ns : QUERY_RETRY_NS);
    } else if (query_too_long(j)) {
        fleet_query_fail(j, -EINVAL, "the request is longer than the model's inputs", 0);
    } else if (now >= query_last_call(j)) {
        fleet_query_fail(j, -ETIME, "the deadline is too near for this model", 0);
    } else if (m->waiting.n || !query_try(j)) {
        query_wait(j);
    }
}
