/* SPDX-License-Identifier: Apache-2.0 */
/* The public server: a gw_server with its doors, and a thread that keeps its house. That thread also
 * adds and removes models, between two rounds: a caller hands it a job, and sleeps. */
#include <gpuwire/serve.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/server/embed/generators.h"
#include "src/server/http/http.h"
#include "src/server/requests/infer.h"
#include "src/server/requests/local.h"
#include "src/server/requests/stats.h"
#include "src/server/requests/watch.h"
#include "src/door/access.h"
#include "src/door/log.h"
#include "src/server/lifecycle/server.h"
#include "src/server/worker/worker.h"
#ifdef GW_HAVE_GRPC
#include "src/server/grpc/door.h"
#endif

#define WHY 512 /* bytes of a reason */

struct job {
    int (*run)(struct gw_serving *s, const void *arg);
    const void *arg;
    int result;
    char why[WHY];
};

struct gw_serving {
    struct gw_server *server;
    struct gw_infer_local local;
    struct gw_infer *infer;
    struct gw_control *control;
    char *models, *model; /* the repository, and the only one of it, for those that look there; NULL: none */
    struct gw_watch *watch;   /* NULL: the repository's changes are not looked for */
    struct gw_access *access; /* NULL: there is no such log */
    uint64_t drain_ns;
    struct gw_generators *generators; /* NULL: built without them */
    struct gw_http_door *http;
    uint16_t grpc_port; /* 0: no such door */
    pthread_t thread;
    int runs;             /* the thread is to be joined */
    pthread_mutex_t turn; /* of the thread that hands over a job */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t done;
    struct job *job; /* to be done; NULL: none */
    int quit;
    int failed; /* why the server has failed; 0: it has not */
    char why[WHY];
    int job_fd, news_fd; /* eventfds: the thread's, and gw_serving_wait's */
};

static void serving_poke(int fd)
{
    const uint64_t one = 1;
    int saved = errno;
    if (write(fd, &one, sizeof(one)) < 0) errno = saved; /* full: it is readable already */
}

static bool serving_empty(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) == sizeof(count);
}

/* ---- the thread ---- */

static void do_job(struct gw_serving *s)
{
    struct job *job = s->job;
    pthread_mutex_unlock(&s->lock);
    job->result = job->run(s, job->arg);
    if (job->result) snprintf(job->why, sizeof(job->why), "%s", gw_last_error());
    pthread_mutex_lock(&s->lock);
    s->job = NULL;
    pthread_cond_broadcast(&s->done);
}

static void note_failure(struct gw_serving *s, int err)
{
    s->failed = err;
    snprintf(s->why, sizeof(s->why), "%s", gw_last_error());
    serving_poke(s->news_fd);
}

static void *serving_keep_house(void *arg)
{
    struct gw_serving *s = arg;
    int fds[] = {s->job_fd, gw_control_fd(s->control), -1, gw_generators_fd(s->generators)}, quit = 0;
    while (!quit) {
        /* A model that comes would end the program's pause. */
        int watches = s->watch && !s->failed && !gw_server_is_paused(s->server);
        fds[2] = watches ? gw_watch_fd(s->watch) : -1;
        /* A server that has failed only waits for its end; its house is not kept. */
        int err = s->failed ? (int)gw_wait_fds(fds, 2, GW_NEVER) : gw_server_run(s->server, fds, 4);
        if (!err && !s->failed) err = gw_generators_look(s->generators);
        serving_empty(s->job_fd);
        gw_control_do(s->control);
        if (watches && !err) gw_watch_do(s->watch, s->server);
        pthread_mutex_lock(&s->lock);
        if (err < 0 && !s->failed) note_failure(s, err);
        if (s->job) do_job(s);
        quit = s->quit;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static int hand_over(struct gw_serving *s, int (*run)(struct gw_serving *s, const void *arg), const void *arg)
{
    struct job job = {.run = run, .arg = arg};
    pthread_mutex_lock(&s->turn);
    pthread_mutex_lock(&s->lock);
    s->job = &job;
    serving_poke(s->job_fd);
    while (s->job) pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&s->turn);
    return job.result ? gw_error(job.result, "%s", job.why) : 0;
}

/* ---- starting ---- */

/* The part of it that the first programs knew. */
#define FIRST_SIZE (offsetof(struct gw_serving_opts, model_memory) + sizeof(uint64_t))

/* A program may know fewer options than this library, or more that it does not use. */
static int take_opts(const struct gw_serving_opts *given, struct gw_serving_opts *o)
{
    uint8_t more = 0;
    if (given->size < FIRST_SIZE || given->size > 4096)
        return gw_error(-EINVAL, "serving: opts.size is %u, which no version of gpuwire has", given->size);
    for (uint32_t i = sizeof(*o); i < given->size; i++) more |= ((const uint8_t *)given)[i];
    if (more)
        return gw_error(-EINVAL, "serving: an option is set that this version of gpuwire does not know");
    memset(o, 0, sizeof(*o));
    memcpy(o, given, given->size < sizeof(*o) ? given->size : sizeof(*o));
    return 0;
}

static int serving_check_opts(const struct gw_serving_opts *o)
{
    if (o->port > 65535 || o->grpc_port > 65535 || o->metrics_port > 65535 || o->sessions > 1024 ||
        o->slots > 256 || o->threads > 1024)
        return gw_error(-EINVAL, "serving: a port is at most 65535, sessions and threads 1024, slots 256");
    if (o->max_batch > GW_SERVING_MAX_ROWS)
        return gw_error(-EINVAL, "serving: max_batch is at most %d", GW_SERVING_MAX_ROWS);
    if (o->token && o->token_file) return gw_error(-EINVAL, "serving: give token or token_file, not both");
    if ((o->model_control || o->watch || o->model) && !o->models)
        return gw_error(-EINVAL, "serving: %s needs a repository in models",
                        o->model_control ? "model_control"
                        : o->watch       ? "watch"
                                         : "model");
    if (o->resident > GW_SERVING_RESIDENT_ALWAYS)
        return gw_error(-EINVAL, "serving: resident is %u, which is no enum gw_serving_resident",
                        o->resident);
    if (o->log_level && gw_log_parse(o->log_level) < 0)
        return gw_error(-EINVAL, "serving: log_level %s: must be error, warning, info or debug",
                        o->log_level);
    if (o->grpc_port && !o->grpc) return gw_error(-EINVAL, "serving: grpc_port is of no use without grpc");
    return 0;
}

_Static_assert((int)GW_SERVING_RESIDENT_NEVER == GW_RESIDENT_NEVER &&
                   (int)GW_SERVING_RESIDENT_AUTO == GW_RESIDENT_AUTO &&
                   (int)GW_SERVING_RESIDENT_ALWAYS == GW_RESIDENT_ALWAYS,
               "one is the other");

static struct gw_server_opts server_opts(const struct gw_serving *s, const struct gw_serving_opts *o)
{
    return (struct gw_server_opts){
        .models = o->models,
        .only = o->model,
        .access = s->access,
        .resident = (enum gw_resident_mode)o->resident,
        .exec = o->exec ? o->exec : "auto",
        .device = o->device,
        .sessions = o->sessions ? o->sessions : 16,
        .sessions_each = o->sessions_each,
        .slots = o->slots ? o->slots : 8,
        .idle_ns = !o->idle_ns                ? 300000000000u
                   : o->idle_ns == UINT64_MAX ? 0
                                              : o->idle_ns,
        .model_memory = o->model_memory,
        .threads = o->threads ? o->threads : 1,
        .gpu = o->gpu,
        .max_batch = o->max_batch,
        .batch_delay_ns = o->batch_delay_ns,
    };
}

static int open_http(struct gw_serving *s, const struct gw_serving_opts *o)
{
    struct gw_http_door_opts http = {.host = o->host,
                                     .port = (uint16_t)o->port,
                                     .max_body = o->max_body,
                                     .cert = o->tls_cert,
                                     .key = o->tls_key,
                                     .token = o->token,
                                     .token_file = o->token_file,
                                     .open_health = o->open_health != 0,
                                     .connections_each = o->connections_each,
                                     .host_names = o->host_names,
                                     .trusted_proxies = o->trusted_proxies,
                                     .metrics_port = (uint16_t)o->metrics_port};
    struct gw_server_view view;
    struct gw_server_door door;
    gw_server_view(s->server, &view);
    int err = gw_generators_create(o, s->access, &s->generators);
    if (err) return err;
    gw_generators_beside(s->generators, &http);
    err = gw_http_door_start(&view, s->infer, &http, &door, &s->http);
    return err ? err : gw_server_add_door(s->server, &door);
}

static int open_grpc(struct gw_serving *s, const struct gw_serving_opts *o)
{
#ifdef GW_HAVE_GRPC
    struct gw_server_door door;
    struct gw_grpc *own;
    struct gw_grpc_opts grpc = {.host = o->host,
                                .port = (uint16_t)o->grpc_port,
                                .max_body = o->max_body,
                                .connections_each = o->connections_each,
                                .trusted_proxies = o->trusted_proxies,
                                .cert = o->tls_cert,
                                .key = o->tls_key,
                                .token = o->token,
                                .token_file = o->token_file,
                                .open_health = o->open_health != 0};
    if (!o->grpc) return 0;
    int err = gw_grpc_start(s->infer, &grpc, &door, &own);
    if (err) return err;
    s->grpc_port = gw_grpc_port(own);
    return gw_server_add_door(s->server, &door);
#else
    (void)s;
    return o->grpc ? gw_error(
                         -ENOTSUP,
                         "serving: built without gRPC; install libnghttp2-dev and libssl-dev and build again")
                   : 0;
#endif
}

static int serving_open_doors(struct gw_serving *s, const struct gw_serving_opts *o)
{
    struct gw_server_view view;
    gw_server_view(s->server, &view);
    int err = gw_control_create(s->server, o->model_control ? s->models : NULL, &s->control);
    gw_infer_local_of(&view, &s->local);
    struct gw_infer_opts infer = {
        .backend = &gw_infer_local, .ctx = &s->local, .control = s->control, .access = s->access};
    if (!err) err = gw_infer_create(&infer, &s->infer);
    if (!err) err = open_http(s, o);
    return err ? err : open_grpc(s, o);
}

/* Set-up that outlives gw_serving_start, and comes before the models. */
static int serving_prepare(struct gw_serving *s, const struct gw_serving_opts *o)
{
    s->drain_ns = o->drain_ns;
    s->models = o->models ? strdup(o->models) : NULL;
    s->model = o->model ? strdup(o->model) : NULL;
    if ((o->models && !s->models) || (o->model && !s->model)) return gw_error(-ENOMEM, "serving: no memory");
    if (o->log_level) gw_log_set((enum gw_log_level)gw_log_parse(o->log_level));
    int err = o->access_log ? gw_access_open(o->access_log, GW_ACCESS_ROOM, &s->access) : 0;
    /* Before the models are read: what changes from now on is noticed. */
    return err || !o->watch ? err : gw_watch_create(s->models, s->model, &s->watch);
}

static int serving_begin(struct gw_serving *s, const struct gw_serving_opts *o)
{
    s->job_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = s->job_fd < 0 || s->news_fd < 0 ? gw_error_errno(-errno, "serving: cannot make an eventfd") : 0;
    if (!err) err = serving_prepare(s, o);
    struct gw_server_opts opts = server_opts(s, o);
    if (!err) err = gw_server_start(&opts, &s->server);
    if (!err) err = serving_open_doors(s, o);
    if (!err) {
        err = -pthread_create(&s->thread, NULL, serving_keep_house, s);
        s->runs = !err;
    }
    return err;
}

int gw_serving_start(const struct gw_serving_opts *given, struct gw_serving **out)
{
    struct gw_serving_opts opts;
    int err = take_opts(given, &opts);
    if (!err) err = serving_check_opts(&opts);
    if (err) return err;
    struct gw_serving *s = calloc(1, sizeof(*s));
    if (!s) return gw_error(-ENOMEM, "serving: no memory");
    pthread_mutex_init(&s->turn, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
    err = serving_begin(s, &opts);
    if (err)
        gw_serving_stop(s);
    else
        *out = s;
    return err;
}

uint16_t gw_serving_port(const struct gw_serving *s)
{
    return gw_http_door_port(s->http);
}

uint16_t gw_serving_grpc_port(const struct gw_serving *s)
{
    return s->grpc_port;
}

int gw_serving_on_gpu(const struct gw_serving *s)
{
    return gw_server_on_gpu(s->server);
}

/* ---- models ---- */

/* As an address and a file may have it. */
static int serving_check_name(const char *name)
{
    size_t n = name ? strnlen(name, 201) : 0;
    for (size_t i = 0; i < n && i < 201; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("/?#%\"\\\x7f", name[i])) n = 0;
    if (n && n <= 200 && name[0] != '.') return 0;
    return gw_error(-EINVAL,
                    "serving: a model's name has 1 to 200 bytes, none of them a space or one of /?#%%\"\\");
}

static int make_model(const struct gw_serving_model *m, struct gw_server_model *out)
{
    if (m->size != sizeof(*m)) return gw_error(-EINVAL, "serving: model.size is not that of this library");
    int err = serving_check_name(m->name);
    if (err) return err;
    if (m->batches > GW_SERVING_MAX_BATCHES)
        return gw_error(-EINVAL, "model %s: at most %d batch sizes", m->name, GW_SERVING_MAX_BATCHES);
    *out = (struct gw_server_model){.name = m->name,
                                    .version = m->version ? m->version : 1,
                                    .batches = m->batches,
                                    .delay_ns = m->max_delay_ns,
                                    .replace = m->replace != 0};
    memcpy(out->batch, m->batch_sizes, sizeof(out->batch));
    return 0;
}

static int add_job(struct gw_serving *s, const void *arg)
{
    return gw_server_add(s->server, arg);
}

static int remove_job(struct gw_serving *s, const void *arg)
{
    return gw_server_remove(s->server, arg);
}

int gw_serving_add_file(struct gw_serving *s, const struct gw_serving_model *model, const char *path)
{
    struct gw_server_model m;
    int err = make_model(model, &m);
    m.path = path;
    return err ? err : hand_over(s, add_job, &m);
}

int gw_serving_add_graphs(struct gw_serving *s, const struct gw_serving_model *model,
                          const struct gw_serving_captured *captured)
{
    struct gw_server_model m;
    int err = make_model(model, &m);
    if (err) return err;
    if (!gw_serving_on_gpu(s))
        return gw_error(
            -ENOTSUP, "model %s: captured graphs run on a GPU, and this server runs on CPU threads", m.name);
    m.captured = captured;
    return hand_over(s, add_job, &m);
}

static int pause_job(struct gw_serving *s, const void *unused)
{
    (void)unused;
    return gw_server_pause(s->server);
}

static int resume_job(struct gw_serving *s, const void *unused)
{
    (void)unused;
    return gw_server_resume(s->server);
}

int gw_serving_pause(struct gw_serving *s)
{
    return hand_over(s, pause_job, NULL);
}

int gw_serving_resume(struct gw_serving *s)
{
    return hand_over(s, resume_job, NULL);
}

/* CUDA may wait for a resident kernel while the network is made, so models pause. */
static int generator_job(struct gw_serving *s, const void *arg)
{
    bool pauses = gw_server_on_gpu(s->server) && !gw_server_is_paused(s->server);
    int err = pauses ? gw_server_pause(s->server) : 0, again;

    if (!err) err = gw_generators_add(s->generators, arg);
    again = pauses ? gw_server_resume(s->server) : 0;
    return err ? err : again;
}

int gw_serving_add_generator(struct gw_serving *s, const struct gw_serving_generator *generator)
{
    int err = 0;
    if (generator->size != sizeof(*generator)) /* before any other member is read */
        return gw_error(-EINVAL, "serving: generator.size is not that of this library");
    if (generator->name) err = serving_check_name(generator->name);
    return err ? err : hand_over(s, generator_job, generator);
}

int gw_serving_remove(struct gw_serving *s, const char *name)
{
    return hand_over(s, remove_job, name);
}

static void serving_fill(struct gw_infer *infer, const struct gw_infer_model *m, struct gw_serving_stats *out)
{
    struct gw_infer_stats s;
    gw_infer_stats(infer, m, &s);
    *out = (struct gw_serving_stats){.successes = s.successes,
                                     .failures = s.failures,
                                     .refused = s.refused,
                                     .late = s.late,
                                     .inferences = s.inferences,
                                     .executions = s.executions,
                                     .waiting = s.waiting,
                                     .queue_ns = s.queue_ns,
                                     .compute_input_ns = s.input_ns,
                                     .compute_infer_ns = s.infer_ns,
                                     .compute_output_ns = s.output_ns,
                                     .batches = s.batches};
    for (uint32_t i = 0; i < s.batches; i++) {
        out->batch[i].rows = s.batch[i].rows;
        out->batch[i].executions = s.batch[i].executions;
        out->batch[i].compute_infer_ns = s.batch[i].infer_ns;
        out->batch[i].p99_ns = s.batch[i].p99_ns;
    }
}

int gw_serving_query(struct gw_serving *s, const char *name, struct gw_serving_stats *stats)
{
    struct gw_infer_model m;
    struct gw_infer_error why;
    gw_infer_enter(s->infer);
    bool found = !gw_infer_find(s->infer, name, NULL, &m, &why);
    if (found) serving_fill(s->infer, &m, stats);
    gw_infer_leave(s->infer);
    return found ? 0 : gw_error(-ENOENT, "no model %s is served", name);
}

/* ---- waiting, and the end ---- */

int gw_serving_wait(struct gw_serving *s, uint64_t deadline_ns)
{
    char why[WHY];
    int64_t ready = gw_wait_fds(&s->news_fd, 1, deadline_ns);
    pthread_mutex_lock(&s->lock);
    int failed = s->failed;
    memcpy(why, s->why, sizeof(why));
    pthread_mutex_unlock(&s->lock);
    if (failed) return gw_error(failed, "%s", why);
    if (ready < 0) return (int)ready;
    if (ready && serving_empty(s->news_fd)) return -EINTR;
    return ready ? -EINTR : gw_error(-ETIMEDOUT, "the server still runs at the deadline");
}

void gw_serving_wake(struct gw_serving *s)
{
    serving_poke(s->news_fd);
}

static void end_thread(struct gw_serving *s)
{
    if (!s->runs) return;
    pthread_mutex_lock(&s->lock);
    s->quit = 1;
    pthread_mutex_unlock(&s->lock);
    serving_poke(s->job_fd);
    pthread_join(s->thread, NULL);
    s->runs = 0;
}

/* The thread has ended, so this one does the housekeeping. */
static void serving_drain(struct gw_serving *s)
{
    if (s->generators) gw_generators_drain(s->generators, gw_deadline(s->failed ? 0 : s->drain_ns));
    if (!s->drain_ns || s->failed || !s->infer) return;
    gw_infer_drain(s->infer);
    if (gw_server_drain(s->server, gw_deadline(s->drain_ns)))
        gw_log(GW_LOG_WARNING, "not all is answered after %.1f s: %s", (double)s->drain_ns / 1e9,
               gw_last_error());
}

int gw_serving_reopen_log(struct gw_serving *s)
{
    if (!s->access) return gw_error(-ENOENT, "serving: there is no access log; set access_log");
    gw_access_reopen(s->access);
    return 0;
}

int gw_serving_stop(struct gw_serving *s)
{
    if (!s) return 0;
    end_thread(s);
    gw_control_close(s->control);
    serving_drain(s);
    int err = gw_server_stop(s->server, NULL);
    if (!err) err = gw_generators_destroy(s->generators);
    if (err) return err;
    s->generators = NULL;
    gw_infer_destroy(s->infer);
    gw_control_destroy(s->control);
    gw_watch_destroy(s->watch);
    gw_access_close(s->access);
    free(s->models);
    free(s->model);
    if (s->job_fd >= 0) close(s->job_fd);
    if (s->news_fd >= 0) close(s->news_fd);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->turn);
    free(s);
    return 0;
}
