/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a server: its models, their workers, and the table of its sessions. */
#include "src/server/lifecycle/server.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/door/log.h"
#include "src/server/lifecycle/server_impl.h"

#define SOON_NS      2000000u   /* while sessions wait to be made ready for the next client; more each time */
#define DRAIN_NS     200000000u /* for requests that came in by the doors */
#define OWN_SESSIONS 2u         /* of each model, for the doors */
#define STOP_NS      600000000u /* for all loops; a second is promised for all there is to do */

static int select_models(struct gw_server *s, const struct gw_server_opts *o)
{
    if (!o->models) return 0;
    int err = gw_repository_scan(o->models, &s->models);
    if (err || !o->only) return err;
    for (size_t i = 0; i < s->models.count; i++)
        if (!strcmp(s->models.entry[i].name, o->only)) return 0;
    for (size_t i = 0; i < s->models.others; i++)
        if (!strcmp(s->models.other[i].name, o->only))
            return gw_error(-ENOENT, "model %s cannot be served: %s", o->only, s->models.other[i].why);
    return gw_error(-ENOENT, "model repository %s: no model %s in it", o->models, o->only);
}

static struct gw_worker_opts worker_opts(const struct gw_server *s, const struct gw_server_opts *o)
{
    return (struct gw_worker_opts){.exec = s->exec,
                                   .dev = s->dev,
                                   .sessions = o->sessions,
                                   .slots = o->slots,
                                   .threads = o->threads,
                                   .own_sessions = OWN_SESSIONS,
                                   .own_dev = s->own_dev,
                                   .resident = o->resident,
                                   .memory = o->model_memory ? o->model_memory : GW_SERVER_MODEL_MEMORY};
}

/* 1, 2, 4 and so on, and the most itself. */
static void batch_sizes(const struct gw_server_opts *o, struct gw_worker_opts *w)
{
    for (uint32_t rows = 1; rows < o->max_batch; rows *= 2) w->batch[w->batches++] = rows;
    if (o->max_batch) w->batch[w->batches++] = o->max_batch;
    w->delay_ns = o->batch_delay_ns;
}

/* A model that cannot be served is reported, and the others are served all the same. One that is the only one
 * is the start's own failure. */
static int server_make_worker(struct gw_server *s, const struct gw_server_opts *o, size_t i)
{
    const struct gw_repository_entry *e = &s->models.entry[i];
    if (s->workers == GW_SERVER_MODELS)
        return gw_error(-ENOSPC, "model repository %s: more than %d models", o->models, GW_SERVER_MODELS);
    int err = gw_worker_create(e, &s->first, &s->worker[s->workers]);
    s->workers += !err;
    if (!err || o->only || s->models.count == 1) return err;
    gw_log(GW_LOG_ERROR, "model %s: version %u cannot be served: %s", e->name, e->version, gw_last_error());
    gw_missing_note(&s->missing, e->name, e->version, gw_last_error());
    return 0;
}

/* Names what this server does not read in a repository that another one has served. */
static void report_others(struct gw_server *s, const struct gw_server_opts *o)
{
    const struct gw_repository *r = &s->models;
    size_t configs = 0;
    for (size_t i = 0; i < r->others && !o->only; i++) {
        gw_log(GW_LOG_ERROR, "model %s cannot be served: %s", r->other[i].name, r->other[i].why);
        gw_missing_note(&s->missing, r->other[i].name, r->other[i].version, r->other[i].why);
    }
    for (size_t i = 0; i < r->count; i++)
        configs += r->entry[i].has_config && (!o->only || !strcmp(r->entry[i].name, o->only));
    if (configs)
        gw_log(
            GW_LOG_INFO,
            "config.pbtxt is not read (%zu of %zu models have one): the model's file says what its tensors "
            "are, and --max-batch and --batch-delay how it is batched",
            configs, o->only ? 1 : r->count);
}

static int make_workers(struct gw_server *s, const struct gw_server_opts *o)
{
    s->first = s->each;
    batch_sizes(o, &s->first);
    for (size_t i = 0; i < s->models.count; i++) {
        if (o->only && strcmp(s->models.entry[i].name, o->only)) continue;
        int err = server_make_worker(s, o, i);
        if (err) return err;
    }
    report_others(s, o);
    if (s->models.count && !s->workers)
        return gw_error(-EINVAL, "model repository %s: none of its models can be served", o->models);
    for (size_t i = 0; i < s->workers; i++) {
        int err = gw_worker_start(s->worker[i]);
        if (err) return err;
    }
    return 0;
}

/* The doors use the same NIC from CPU threads, wherever the models run. */
static int make_own_device(struct gw_server *s)
{
    struct gw_device_info nic;
    gw_device_query(s->dev, &nic);
    int err = gw_exec_create("cpu", NULL, &s->own_exec);
    return err ? err : gw_device_open(nic.soft ? "softnic" : nic.name, s->own_exec, &s->own_dev);
}

static int server_describe(struct gw_server *s)
{
    size_t size = 0;
    FILE *f = open_memstream(&s->text, &size);
    if (!f) return -ENOMEM;
    for (size_t i = 0; i < s->workers; i++)
        fprintf(f, "%s%s/%u", i ? ", " : "", gw_worker_name(s->worker[i]), gw_worker_version(s->worker[i]));
    struct gw_device_info nic;
    gw_device_query(s->dev, &nic);
    fprintf(f, " on %s over %s%s", gw_exec_name(s->exec), nic.name, nic.soft ? " (softnic)" : "");
    return fclose(f) ? -ENOMEM : 0;
}

static int server_make_table(struct gw_server *s, const struct gw_server_opts *o)
{
    uint32_t each = o->sessions_each ? o->sessions_each : o->sessions - o->sessions / 4;
    uint64_t unused = o->idle_ns && o->idle_ns < GW_SERVER_UNUSED_NS ? o->idle_ns : GW_SERVER_UNUSED_NS;
    return gw_table_init(&s->sessions, each, unused, o->idle_ns);
}

/* The thread that changes the list goes before those that read it all the time. */
static void make_lock(struct gw_server *s)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&s->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
}

int gw_server_start(const struct gw_server_opts *o, struct gw_server **out)
{
    struct gw_server *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    make_lock(s);
    int err = server_make_table(s, o);
    s->sessions.access = o->access;
    if (!err) err = select_models(s, o);
    struct gw_exec_opts exec_opts = {.device = o->gpu};
    if (!err) err = gw_exec_create(o->exec, &exec_opts, &s->exec);
    if (!err) err = gw_device_open(o->device, s->exec, &s->dev);
    if (!err) err = make_own_device(s);
    if (!err && gw_exec_kind(s->exec) == GW_EXEC_CPU) gw_clock_name(s->clock);
    s->each = worker_opts(s, o);
    if (!err) err = make_workers(s, o);
    if (!err) err = server_describe(s);
    if (err)
        gw_server_stop(s, NULL);
    else
        *out = s;
    return err;
}

int gw_server_add_door(struct gw_server *s, const struct gw_server_door *door)
{
    if (s->doors == GW_SERVER_DOORS)
        return gw_error(-ENOSPC, "a server has at most %d doors", GW_SERVER_DOORS);
    s->door[s->doors++] = *door;
    return 0;
}

void gw_server_view(struct gw_server *s, struct gw_server_view *view)
{
    *view = (struct gw_server_view){.clock = s->clock,
                                    .worker = s->worker,
                                    .workers = &s->workers,
                                    .sessions = &s->sessions,
                                    .on_gpu = gw_server_on_gpu(s),
                                    .lock = &s->lock,
                                    .missing = &s->missing};
}

bool gw_server_on_gpu(const struct gw_server *s)
{
    return gw_exec_kind(s->exec) == GW_EXEC_GPU;
}

const char *gw_server_text(const struct gw_server *s)
{
    return s->text;
}

/* Returns when to come again. */
uint64_t gw_server_keep_house(struct gw_server *s, uint64_t pause)
{
    for (uint32_t i = 0; i < s->doors; i++)
        if (s->door[i].tend) s->door[i].tend(s->door[i].door);
    pthread_rwlock_rdlock(&s->lock); /* another thread may be changing the list (house.c) */
    uint32_t left = gw_table_tend(&s->sessions, s->worker, s->workers);
    pthread_rwlock_unlock(&s->lock);
    if (!left) return GW_SERVER_HOUSEKEEPING_NS;
    /* A loop that is at work lets go of them when it is done: it is asked less and less often. */
    if (pause >= GW_SERVER_HOUSEKEEPING_NS) return SOON_NS;
    return 2 * pause < GW_SERVER_HOUSEKEEPING_NS ? 2 * pause : GW_SERVER_HOUSEKEEPING_NS - 1;
}

int gw_server_run(struct gw_server *s, const int *fds, uint32_t n)
{
    int watched[62];
    uint32_t count = 0;
    uint64_t pause = GW_SERVER_HOUSEKEEPING_NS;
    for (size_t i = 0; i < s->workers && count < 32 && !s->paused; i++)
        watched[count++] = gw_worker_fd(s->worker[i]);
    uint64_t ours = (1ull << count) - 1;
    uint64_t theirs = 0;
    for (uint32_t i = 0; i < n && count < 61; i++) {
        theirs |= 1ull << count;
        watched[count++] = fds[i];
    }
    watched[count++] = s->sessions.news_fd;
    for (;;) {
        int64_t ready = gw_wait_fds(watched, count, gw_deadline(pause));
        if (ready < 0 && ready != -EINTR) return (int)ready;
        if (ready > 0 && (uint64_t)ready & ours) {
            uint64_t ns;
            for (size_t i = 0; i < s->workers; i++) {
                int err =
                    (uint64_t)ready >> i & 1 ? gw_worker_stop(s->worker[i], gw_deadline(STOP_NS), &ns) : 0;
                if (err) return gw_error_errno(err, "model %s: serving ended", gw_worker_name(s->worker[i]));
            }
        }
        if (ready > 0 && (uint64_t)ready & theirs) return 0;
        pause = gw_server_keep_house(s, ready > 0 ? GW_SERVER_HOUSEKEEPING_NS : pause);
    }
}

/* All at once. -EBUSY: one is still at work. */
static int stop_workers(struct gw_server *s, uint64_t *longest)
{
    uint64_t end = gw_deadline(STOP_NS);
    int busy = 0;
    while (s->leavings) s->worker[s->workers++] = s->leaving[--s->leavings];
    for (size_t i = 0; i < s->workers; i++) gw_worker_stop_soon(s->worker[i]);
    for (size_t i = 0; i < s->workers; i++) {
        uint64_t ns = 0;
        if (gw_worker_stop(s->worker[i], end, &ns) == -ETIMEDOUT)
            busy = gw_error(-EBUSY, "model %s was at work on a request, which is lost",
                            gw_worker_name(s->worker[i]));
        if (ns > *longest) *longest = ns;
    }
    return busy;
}

int gw_server_stop(struct gw_server *s, uint64_t *stop_ns)
{
    uint64_t longest = 0;
    if (!s) return 0;
    uint64_t drained = gw_deadline(DRAIN_NS);
    for (size_t i = 0; i < s->workers; i++) gw_calls_close(gw_worker_calls(s->worker[i]), drained);
    /* First the doors: they close the sessions, which tells their clients. */
    for (uint32_t i = 0; i < s->doors; i++) s->door[i].stop(s->door[i].door);
    int busy = stop_workers(s, &longest);
    if (stop_ns) *stop_ns = longest;
    if (busy) return busy;
    for (size_t i = 0; i < s->workers; i++) gw_worker_destroy(s->worker[i]);
    pthread_rwlock_destroy(&s->lock);
    gw_table_free(&s->sessions);
    if (s->own_dev) gw_device_close(s->own_dev);
    gw_exec_destroy(s->own_exec);
    if (s->dev) gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
    gw_repository_free(&s->models);
    gw_missing_free(&s->missing);
    free(s->text);
    free(s);
    return 0;
}
