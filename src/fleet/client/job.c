/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: the life of a request: it waits, flies, is refused and tried elsewhere, and ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/client/impl.h"

#define JOB_NO_PLACE UINT32_MAX
#define JOB_RETRY_NS 50000000 /* when none is known better: a round or two of the planner */

void fleet_jobs_add(struct fleet_jobs *l, struct fleet_job *j)
{
    j->next = NULL;
    j->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = j;
    l->last = j;
    l->n++;
}

void fleet_jobs_take(struct fleet_jobs *l, struct fleet_job *j)
{
    *(j->prev ? &j->prev->next : &l->first) = j->next;
    *(j->next ? &j->next->prev : &l->last) = j->prev;
    j->next = j->prev = NULL;
    l->n--;
}

/* ---- numbers of requests */

static int job_number(struct fleet_client *c, struct fleet_job *j)
{
    if (c->jobs_free == JOB_NO_PLACE || !c->jobs) {
        uint32_t had = c->jobs, n = had ? 2 * had : 64;
        struct fleet_job_place *more = realloc(c->job, n * sizeof *more);
        if (!more) return -ENOMEM;
        for (uint32_t i = had; i < n; i++)
            more[i] = (struct fleet_job_place){.next_free = i + 1 < n ? i + 1 : JOB_NO_PLACE};
        c->job = more;
        c->jobs = n;
        c->jobs_free = had;
    }
    uint32_t at = c->jobs_free;
    struct fleet_job_place *p = &c->job[at];
    c->jobs_free = p->next_free;
    p->job = j;
    p->generation++;
    j->id = (uint64_t)p->generation << 32 | at;
    return 0;
}

static void job_free(struct fleet_job *j)
{
    struct fleet_client *c = j->model->client;
    uint32_t at = (uint32_t)j->id;
    if (j->id) {
        c->job[at].job = NULL;
        c->job[at].next_free = c->jobs_free;
        c->jobs_free = at;
    }
    free(j);
}

struct fleet_job *fleet_job_flying(const struct fleet_peer *p, uint64_t id)
{
    const struct fleet_client *c = p->client;
    uint32_t at = (uint32_t)id;
    struct fleet_job *j = at < c->jobs ? c->job[at].job : NULL;
    return j && j->id == id && j->state == FLEET_JOB_FLIES && j->peer == p && !j->describes && !j->written
               ? j
               : NULL;
}

/* ---- its end */

static void job_count(const struct fleet_job *j, int err)
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

bool fleet_job_landed(struct fleet_job *j)
{
    struct fleet_client *c = j->model->client;
    struct fleet_holding *h = j->lease;
    bool told = j->told;
    fleet_jobs_take(&j->peer->flying, j);
    j->state = FLEET_JOB_NEW;
    j->lease = NULL;
    if (!j->describes) {
        c->stats.flying--;
        j->model->flying--;
        h->flying--;
        fleet_lease_put(h);
    }
    if (told) job_free(j);
    return !told;
}

void fleet_job_end(struct fleet_job *j, const struct fleet_client_reply *reply)
{
    struct fleet_client *c = j->model->client;
    struct fleet_client_reply r = *reply;
    fleet_timer_clear(c->loop, &j->timer);
    if (j->state == FLEET_JOB_WAITS) {
        fleet_jobs_take(&j->model->waiting, j);
        c->stats.waiting -= !j->describes;
        j->state = FLEET_JOB_NEW;
    }
    r.rows = j->r.rows;
    r.tries = j->tries;
    r.begun_at = j->begun_at;
    r.sent_at = j->sent_at;
    job_count(j, r.error);
    j->told = true;
    j->r.done(j->r.ctx, &r);
    if (j->state != FLEET_JOB_FLIES) job_free(j);
}

void fleet_job_fail(struct fleet_job *j, int err, const char *why, int64_t retry_ns)
{
    struct fleet_client_reply r = {.error = err, .why = why, .retry_ns = retry_ns};
    r.seen_at = fleet_loop_now(j->model->client->loop);
    fleet_job_end(j, &r);
}

/* Refused, or not sent at all; a refusal without a better time is worth another try soon. */
static void job_give_up(struct fleet_job *j)
{
    const struct fleet_client_model *m = j->model;
    if (j->refusal) {
        fleet_job_fail(j, j->refusal, j->why, j->retry_ns);
        return;
    }
    const char *why = m->held[0].n + m->held[1].n ? "no lease had a free slot and budget in time"
                      : m->why                    ? m->why
                      : m->client->leader.welcome ? "the controller has granted no lease in time"
                                                  : "no controller of the fleet answers";
    fleet_job_fail(j, -EAGAIN, why, m->retry_ns ? m->retry_ns : JOB_RETRY_NS);
}

/* ---- when time is up */

static void job_is_due(void *ctx)
{
    struct fleet_job *j = ctx;
    if (j->state == FLEET_JOB_WAITS) {
        job_give_up(j);
        return;
    }
    if (j->lease) j->lease->avoid_at = j->limit_at + FLEET_SECOND / 10;
    if (j->r.deadline_at)
        fleet_job_fail(j, -ETIME, "the worker has not answered by the deadline", 0);
    else
        fleet_job_fail(j, -ETIMEDOUT, "the worker has not answered", 0);
}

/* The last moment at which sending makes sense. */
static int64_t job_last_call(const struct fleet_job *j)
{
    return j->describes || !j->r.deadline_at ? j->limit_at : j->limit_at - j->model->exec_ns;
}

static int job_set_timer(struct fleet_job *j, int64_t at)
{
    return fleet_timer_set(j->model->client->loop, &j->timer, at, job_is_due, j);
}

/* ---- to a worker */

static bool job_send(struct fleet_job *j, struct fleet_holding *h, int64_t now)
{
    struct fleet_client *c = j->model->client;
    j->lease = h;
    if (fleet_peer_send(h->peer, j, now) || job_set_timer(j, j->limit_at)) {
        j->lease = NULL;
        h->avoid_at = now + FLEET_SECOND / 10; /* the connection is about to be closed */
        return false;
    }
    j->peer = h->peer;
    j->state = FLEET_JOB_FLIES;
    fleet_jobs_add(&h->peer->flying, j);
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

static void job_wake(void *ctx)
{
    fleet_job_drain(ctx);
}

/* False: there is no lease for it now. */
static bool job_try(struct fleet_job *j)
{
    struct fleet_client_model *m = j->model;
    int64_t now = fleet_loop_now(m->client->loop), when = 0;
    struct fleet_holding *h = fleet_lease_pick(j, now, &when);
    if (h) return job_send(j, h, now);
    if (when && (!m->wake.at || m->wake.at > when)) /* without memory, the next answer wakes it */
        fleet_timer_set(m->client->loop, &m->wake, when, job_wake, m);
    return false;
}

void fleet_job_drain(struct fleet_client_model *m)
{
    struct fleet_client *c = m->client;
    while (m->waiting.first) {
        struct fleet_job *j = m->waiting.first;
        fleet_jobs_take(&m->waiting, j);
        c->stats.waiting -= !j->describes;
        j->state = FLEET_JOB_NEW;
        if (job_try(j)) continue;
        /* It stays the first. */
        j->next = m->waiting.first;
        *(j->next ? &j->next->prev : &m->waiting.last) = j;
        m->waiting.first = j;
        m->waiting.n++;
        c->stats.waiting += !j->describes;
        j->state = FLEET_JOB_WAITS;
        return;
    }
    if (m->wake.at) fleet_timer_clear(c->loop, &m->wake);
}

static void job_wait(struct fleet_job *j)
{
    struct fleet_client_model *m = j->model;
    int64_t last = job_last_call(j);
    if (m->waiting.n >= m->client->max_waiting) {
        fleet_job_fail(j, -EAGAIN, "too many requests wait for a lease of this model", JOB_RETRY_NS);
        return;
    }
    fleet_jobs_add(&m->waiting, j);
    m->client->stats.waiting += !j->describes;
    j->state = FLEET_JOB_WAITS;
    if (job_set_timer(j, last)) fleet_job_fail(j, -ENOMEM, "no memory for a timer", 0);
}

void fleet_job_again(struct fleet_job *j)
{
    struct fleet_client_model *m = j->model;
    int64_t now = fleet_loop_now(m->client->loop);
    bool died = j->refusal == -ECONNRESET;
    if ((!died && j->tries >= FLEET_JOB_TRIES) || now >= job_last_call(j)) {
        job_give_up(j);
        return;
    }
    if (!j->describes) m->client->stats.retried++;
    if (job_try(j)) return;
    if (died || j->describes)
        job_wait(j);
    else
        job_give_up(j); /* one that was refused does not wait for another lease: its client knows sooner */
}

/* ---- its begin */

static void job_describe(struct fleet_job *j)
{
    const struct fleet_client_model *m = j->model;
    if (!m->json) {
        if (m->waiting.n || !job_try(j)) job_wait(j);
        return;
    }
    struct fleet_client_reply r = {.why = "", .data = m->json, .bytes = m->json_bytes};
    r.seen_at = fleet_loop_now(m->client->loop);
    fleet_job_end(j, &r);
}

void fleet_job_begin(struct fleet_job *j)
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
    if (now < m->absent_until) {
        fleet_job_fail(j, -ENOENT, "no worker of the fleet has such a model", m->absent_until - now);
    } else if (job_number(c, j)) {
        fleet_job_fail(j, -ENOMEM, "no memory for a request", 0);
    } else if (j->describes) {
        job_describe(j);
    } else if (!fleet_admit_one(&m->admit, j->r.deadline_at ? m->deadline_ns : INT64_MAX)) {
        c->stats.shed++;
        fleet_job_fail(j, -EAGAIN, "the fleet sheds requests of this deadline: it has too much to do",
                       m->retry_ns ? m->retry_ns : JOB_RETRY_NS);
    } else if (now >= job_last_call(j)) {
        fleet_job_fail(j, -ETIME, "the deadline is too near for this model", 0);
    } else if (m->waiting.n || !job_try(j)) {
        job_wait(j);
    }
}
