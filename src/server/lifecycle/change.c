/* SPDX-License-Identifier: Apache-2.0 */
/* Models that come and go while others are served. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/detail/assert.h>

#include "src/server/worker/captured.h"
#include "src/server/lifecycle/server_impl.h"

#define PATIENCE_NS 10000000000u
#define LOOK_NS     1000000

/* ---- pauses: CUDA allocates and frees nothing beside a resident kernel ---- */

static int stop_one(struct gw_worker *w)
{
    uint64_t ns;
    int err = gw_worker_stop(w, gw_deadline(PATIENCE_NS), &ns);
    return err == -ETIMEDOUT ? gw_error(-EBUSY, "model %s is still at work on a request", gw_worker_name(w))
                             : err;
}

/* Goes on with the first n models. */
static int resume(struct gw_server *s, size_t n)
{
    int err = 0;
    for (size_t i = 0; !err && i < n && s->paused; i++) err = gw_worker_start(s->worker[i]);
    s->paused = 0;
    return err;
}

/* Requests that come in that time wait in their slots. */
static int pause_all(struct gw_server *s)
{
    int err = 0;
    size_t n = 0;
    if (!gw_server_on_gpu(s) || s->paused) return 0;
    for (size_t i = 0; i < s->workers; i++) gw_worker_stop_soon(s->worker[i]);
    while (!err && n < s->workers) {
        err = stop_one(s->worker[n]);
        n += !err;
    }
    s->paused = !err;
    if (!err) return 0;
    for (size_t i = 0; i < s->workers; i++)
        gw_worker_start(s->worker[i]); /* that which is at work cannot, and ends */
    return err;
}

int gw_server_pause(struct gw_server *s)
{
    struct gw_house house;
    gw_house_begin(&house, s);
    int err = pause_all(s);
    gw_house_end(&house);
    return err;
}

int gw_server_resume(struct gw_server *s)
{
    return resume(s, s->workers);
}

bool gw_server_is_paused(const struct gw_server *s)
{
    return s->paused;
}

/* ---- the list ---- */

static size_t serve_change_find(const struct gw_server *s, const char *name)
{
    size_t i = 0;
    while (i < s->workers && strcmp(gw_worker_name(s->worker[i]), name)) i++;
    return i;
}

/* Puts w, or nothing, in place i; a place after the last is a new one. When it returns no door holds what
 * was there, but for the calls that it has. */
static void set_place(struct gw_server *s, size_t i, struct gw_worker *w)
{
    pthread_rwlock_wrlock(&s->lock);
    GW_ASSERT(i <= s->workers && (w || i < s->workers) && s->workers <= GW_SERVER_MODELS);
    if (w) {
        s->worker[i] = w;
        if (i == s->workers) s->workers++;
    } else {
        s->workers--;
        memmove(&s->worker[i], &s->worker[i + 1], (s->workers - i) * sizeof(*s->worker));
    }
    pthread_rwlock_unlock(&s->lock);
}

unsigned gw_server_version(const struct gw_server *s, const char *name)
{
    size_t at = serve_change_find(s, name);
    return at < s->workers ? gw_worker_version(s->worker[at]) : 0;
}

/* ---- models that are not served ---- */

void gw_server_miss(struct gw_server *s, const char *name, unsigned version, const char *why)
{
    pthread_rwlock_wrlock(&s->lock);
    gw_missing_note(&s->missing, name, version, why);
    pthread_rwlock_unlock(&s->lock);
}

void gw_server_forget(struct gw_server *s, const char *name)
{
    pthread_rwlock_wrlock(&s->lock);
    gw_missing_forget(&s->missing, name);
    pthread_rwlock_unlock(&s->lock);
}

/* ---- adding ---- */

static int make_captured(const struct gw_server_model *m, const struct gw_worker_opts *opts,
                         struct gw_worker **out)
{
    struct gw_worker_source source = {.name = m->name,
                                      .version = m->version,
                                      .place = gw_captured_place,
                                      .run = gw_captured_run,
                                      .example = gw_captured_example,
                                      .ctx = (void *)m->captured};
    int err = gw_captured_open(m->name, m->captured, &source.model);
    return err ? err : gw_worker_create_from(&source, opts, out);
}

static int make_own(const struct gw_server_model *m, const struct gw_worker_opts *opts,
                    struct gw_worker **out)
{
    struct gw_worker_source source = {
        .name = m->name, .version = m->version, .model = m->own->model, .own = m->own};
    return gw_worker_create_from(&source, opts, out);
}

static int serve_change_make_worker(const struct gw_server *s, const struct gw_server_model *m,
                                    struct gw_worker **out)
{
    struct gw_worker_opts opts = m->as_at_start ? s->first : s->each;
    struct gw_repository_entry file = {
        .name = (char *)m->name, .version = m->version, .path = (char *)m->path};
    if (m->as_at_start) return gw_worker_create(&file, &opts, out);
    opts.delay_ns = m->delay_ns;
    opts.batches = m->captured ? m->captured->graphs : m->batches;
    if (opts.batches > GW_SERVE_VARIANTS)
        return gw_error(-EINVAL, "model %s: at most %d batch sizes", m->name, GW_SERVE_VARIANTS);
    for (uint32_t i = 0; i < opts.batches; i++)
        opts.batch[i] = m->captured && m->captured->graph ? m->captured->graph[i].rows : m->batch[i];
    if (m->own) return make_own(m, &opts, out);
    if (m->captured) return make_captured(m, &opts, out);
    int err = gw_worker_create(&file, &opts, out);
    if (err || !m->batches || gw_worker_max_rows(*out) == m->batch[m->batches - 1]) return err;
    int alone = gw_worker_is_alone(*out);
    gw_worker_destroy(*out);
    *out = NULL;
    return gw_error(-EINVAL, "model %s: %s, so it takes no batches", m->name,
                    alone ? "rows of a batch would meet"
                          : "not all of its tensors have an open first dimension");
}

static int serve_change_retire(struct gw_server *s, struct gw_worker *w);
static int bury(struct gw_server *s);

static int serve_change_add(struct gw_server *s, const struct gw_server_model *m)
{
    size_t at = serve_change_find(s, m->name), had = s->workers;
    struct gw_worker *w = NULL, *old = at < had ? s->worker[at] : NULL;
    if (old && !m->replace)
        return gw_error(-EEXIST, "model %s: there is one of that name; ask for it to be replaced", m->name);
    if (s->workers + s->leavings + 1 > GW_SERVER_MODELS)
        return gw_error(-ENOSPC, "there are %d models already", GW_SERVER_MODELS);
    int err = bury(s);
    if (!err || err == -EBUSY) err = pause_all(s);
    if (err) return err;
    err = serve_change_make_worker(s, m, &w);
    int went_on = resume(s, had);
    if (!err) err = went_on ? went_on : gw_worker_start(w);
    if (err) {
        gw_worker_destroy(w);
        return err;
    }
    set_place(s, at, w);
    if (!old) return 0;
    err = serve_change_retire(s, old);
    return err == -EBUSY ? 0 : err; /* it is freed when another model comes or goes */
}

/* Also when there is an error the pause is over. */
int gw_server_add(struct gw_server *s, const struct gw_server_model *m)
{
    struct gw_house house;
    gw_house_begin(&house, s);
    int err = serve_change_add(s, m);
    gw_house_end(&house);
    if (err && m->as_at_start)
        gw_server_miss(s, m->name, m->version, gw_last_error());
    else if (!err)
        gw_server_forget(s, m->name);
    if (s->paused) resume(s, s->workers);
    return err;
}

/* ---- removing ---- */

uint32_t gw_server_taken(const struct gw_worker *w)
{
    struct gw_calls *calls = gw_worker_calls(w);
    return calls ? gw_calls_taken(calls) + gw_calls_held(calls) : 0;
}

uint64_t gw_server_waiting(const struct gw_worker *w)
{
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_serve_counters t;
    gw_session_pool_counters(gw_worker_sessions(w), &t, v);
    return t.waiting;
}

/* No door finds the model any more. Waiting requests are served first, then new ones are told that the model
 * closes. */
static void serve_change_drain(struct gw_worker *w)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    uint64_t end = gw_deadline(PATIENCE_NS);
    while (gw_server_taken(w) && gw_deadline(0) < end) nanosleep(&look, NULL);
    gw_worker_close(w);
    gw_calls_close(gw_worker_calls(w), end);
    while (gw_server_waiting(w) && gw_deadline(0) < end) nanosleep(&look, NULL);
}

/* Frees those that are no longer used. */
static int bury(struct gw_server *s)
{
    int err = s->leavings ? pause_all(s) : 0, busy = 0;
    if (err || !s->leavings) return err;
    for (size_t i = 0; i < s->leavings;) {
        struct gw_worker *w = s->leaving[i];
        gw_worker_stop_soon(w);
        err = stop_one(w);
        if (!err && gw_server_taken(w))
            err = gw_error(-EBUSY, "model %s: answers are still being sent", gw_worker_name(w));
        if (!err) err = gw_worker_destroy(w);
        if (err)
            busy = err, i++;
        else
            s->leaving[i] = s->leaving[--s->leavings];
    }
    err = resume(s, s->workers);
    return err ? err : busy;
}

static int serve_change_retire(struct gw_server *s, struct gw_worker *w)
{
    serve_change_drain(w);
    gw_table_close_model(&s->sessions, w);
    GW_ASSERT(s->workers + s->leavings < GW_SERVER_MODELS + 1);
    s->leaving[s->leavings++] = w;
    return bury(s);
}

static bool is_leaving(const struct gw_server *s, const char *name)
{
    for (size_t i = 0; i < s->leavings; i++)
        if (!strcmp(gw_worker_name(s->leaving[i]), name)) return true;
    return false;
}

static int remove_model(struct gw_server *s, const char *name)
{
    size_t at = serve_change_find(s, name);
    if (s->paused) resume(s, s->workers); /* what waits for it is served first */
    if (at == s->workers)
        return is_leaving(s, name) ? bury(s) : gw_error(-ENOENT, "no model %s is served", name);
    struct gw_worker *w = s->worker[at];
    gw_server_forget(s, name); /* a version of it that could not take this one's place */
    set_place(s, at, NULL);
    return serve_change_retire(s, w);
}

int gw_server_remove(struct gw_server *s, const char *name)
{
    struct gw_house house;
    gw_house_begin(&house, s);
    int err = remove_model(s, name);
    gw_house_end(&house);
    return err;
}
