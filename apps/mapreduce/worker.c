/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: it does what the master says, one message after another. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker_impl.h"

int worker_fail(struct worker *w, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(w->why, sizeof(w->why), format, args);
    va_end(args);
    return err;
}

int worker_send(struct worker *w, uint32_t type, struct pack *p)
{
    int err;

    pthread_mutex_lock(&w->sending);
    err = wire_send(&w->wire, type, p);
    pthread_mutex_unlock(&w->sending);
    return err ? -EPIPE : 0;
}

/* A process that is stopped, or whose host hangs, is silent. */
static void *beat_main(void *arg)
{
    struct worker *w = (struct worker *)arg;
    struct pollfd end = {w->beat_end, POLLIN, 0};

    while (poll(&end, 1, 500) == 0) {
        struct pack p = {0};

        pack_u32(&p, 0); /* of no epoch */
        if (worker_send(w, WIRE_BEAT, &p)) break;
    }
    return NULL;
}

static bool beat_start(struct worker *w)
{
    w->beat_end = eventfd(0, EFD_CLOEXEC);
    if (w->beat_end >= 0 && !pthread_create(&w->beat, NULL, beat_main, w)) return true;
    if (w->beat_end >= 0) close(w->beat_end);
    return false;
}

static void beat_stop(struct worker *w)
{
    uint64_t one = 1;

    (void)!write(w->beat_end, &one, sizeof(one));
    pthread_join(w->beat, NULL);
    close(w->beat_end);
}

static int say_epoch(struct worker *w, uint32_t type)
{
    struct pack p = {0};

    pack_u32(&p, w->epoch);
    return worker_send(w, type, &p);
}

static int say_why(struct worker *w, uint32_t type, uint32_t number)
{
    struct pack p = {0};

    pack_u32(&p, number);
    pack_bytes(&p, w->why, strlen(w->why));
    return worker_send(w, type, &p);
}

/* ---- what the master says ------------------------------------------------------------------------------ */

/* The files' names, as kernels find them. */
static int job_names(struct worker *w)
{
    uint64_t bytes = 4 * ((uint64_t)w->files + 1), at = bytes;
    uint32_t *offset;

    for (uint32_t i = 0; i < w->files; i++) bytes += strlen(w->file[i].path);
    w->names = (uint8_t *)malloc(bytes);
    if (!w->names || bytes > UINT32_MAX) return worker_fail(w, -ENOMEM, "no memory for the files' names");
    offset = (uint32_t *)w->names;
    for (uint32_t i = 0; i < w->files; i++) {
        size_t n = strlen(w->file[i].path);

        offset[i] = (uint32_t)at;
        memcpy(w->names + at, w->file[i].path, n);
        at += n;
    }
    offset[w->files] = (uint32_t)at;
    w->job.names = w->names;
    w->job.names_bytes = (uint32_t)bytes;
    return 0;
}

static int job_files(struct worker *w, struct unpack *u, uint32_t n)
{
    w->file = (struct worker_file *)calloc(n ? n : 1, sizeof(*w->file));
    if (!w->file) return worker_fail(w, -ENOMEM, "no memory for the list of files");
    for (uint32_t i = 0; i < n && !u->bad; i++) {
        struct worker_file *f = &w->file[i];
        char path[4097];

        unpack_text(u, path, sizeof(path));
        f->path = strdup(path);
        f->start = unpack_u64(u);
        f->bytes = unpack_u64(u);
        f->first = unpack_u64(u);
        f->inode = unpack_u64(u);
        f->mtime_ns = unpack_u64(u);
        f->size = unpack_u64(u);
        f->fd = -1;
        if (!f->path) return worker_fail(w, -ENOMEM, "no memory for the list of files");
        w->files = i + 1;
    }
    return u->bad ? worker_fail(w, -EPROTO, "the master's list of files is damaged") : 0;
}

static int on_job(struct worker *w, struct unpack *u)
{
    uint64_t input;
    uint32_t files;
    char name[64];
    int err;

    if (w->job.job) return worker_fail(w, -EPROTO, "the master sent a second job");
    unpack_text(u, name, sizeof(name));
    if (strcmp(name, w->o.job->job))
        return worker_fail(w, -EINVAL, "rank %u was started with another job, %s", w->o.rank, w->o.job->job);
    w->job.job = w->o.job;
    w->job.record = unpack_u32(u);
    w->job.key = unpack_u32(u);
    w->job.value = unpack_u32(u);
    w->job.keys = unpack_u32(u);
    w->job.parts = unpack_u32(u);
    input = unpack_u64(u);
    files = unpack_u32(u);
    err = u->bad || !w->job.parts ? worker_fail(w, -EPROTO, "the master's job is damaged")
                                  : job_files(w, u, files);
    if (!err) err = job_names(w);
    if (err) return err;
    w->written = (char **)calloc(w->job.parts, sizeof(*w->written));
    if (!w->written) return worker_fail(w, -ENOMEM, "no memory");
    err = engine_prepare(w->engine, &w->job, input);
    if (err) return worker_fail(w, err, "%s", engine_why(w->engine));
    w->keep.size = engine_kept(w->engine);
    return 0;
}

static int on_epoch(struct worker *w, struct unpack *u)
{
    char(*ends)[GW_CHANNEL_END_TEXT];
    struct pack p = {0};
    int err;

    w->epoch = unpack_u32(u);
    w->alive = unpack_u32(u);
    w->me = unpack_u32(u);
    if (u->bad || !w->job.job || w->me >= w->alive || w->alive > w->o.engine.ranks)
        return worker_fail(w, -EPROTO, "the master's epoch is damaged");
    worker_forget(w);
    ends = (char(*)[GW_CHANNEL_END_TEXT])calloc(w->alive, sizeof(*ends));
    if (!ends) return worker_fail(w, -ENOMEM, "no memory");
    err = engine_epoch(w->engine, w->alive, w->me, ends);
    pack_u32(&p, w->epoch);
    for (uint32_t i = 0; i + 1 < w->alive; i++) pack_bytes(&p, ends[i], strlen(ends[i]));
    free(ends);
    if (err) {
        pack_free(&p);
        return worker_fail(w, err, "%s", engine_why(w->engine));
    }
    return worker_send(w, WIRE_ENDS, &p);
}

static int on_peers(struct worker *w, struct unpack *u)
{
    char(*ends)[GW_CHANNEL_END_TEXT];
    int err;

    if (unpack_u32(u) != w->epoch) return 0;
    ends = (char(*)[GW_CHANNEL_END_TEXT])calloc(w->alive, sizeof(*ends));
    if (!ends) return worker_fail(w, -ENOMEM, "no memory");
    for (uint32_t i = 0; i + 1 < w->alive; i++) unpack_text(u, ends[i], sizeof(ends[i]));
    err = u->bad ? worker_fail(w, -EPROTO, "the master's list of ranks is damaged")
                 : engine_connect(w->engine, (const char(*)[GW_CHANNEL_END_TEXT])ends);
    free(ends);
    if (u->bad) return err;
    return err ? worker_fail(w, -EAGAIN, "%s", engine_why(w->engine)) : say_epoch(w, WIRE_JOINED);
}

static int send_samples(struct worker *w)
{
    enum { MOST = 64 << 10 };
    uint8_t *keys = (uint8_t *)malloc((size_t)MOST * MR_SAMPLE);
    int64_t n = keys ? engine_samples(w->engine, keys, MOST) : -ENOMEM;
    struct pack p = {0};

    if (n < 0) {
        free(keys);
        return worker_fail(w, (int)n, "no memory for the sample");
    }
    pack_u32(&p, w->epoch);
    pack_bytes(&p, keys, (size_t)n * MR_SAMPLE);
    free(keys);
    return worker_send(w, WIRE_SAMPLES, &p);
}

static double seconds(uint64_t from, uint64_t to)
{
    return (double)(to - from) / 1e9;
}

static int send_done(struct worker *w)
{
    struct engine_counts c;
    struct pack p = {0};

    engine_counts(w->engine, &c);
    if (w->o.verbose)
        fprintf(
            stderr,
            "rank %u: begin %.4f s, map %.4f, sort %.4f, measure %.4f, write %.4f (of it the file %.4f)\n",
            w->o.rank, seconds(w->begin_ns, w->map_ns), seconds(w->map_ns, w->mapped_ns),
            seconds(0, c.sort_ns), seconds(0, c.measure_ns), seconds(0, c.write_ns), seconds(0, c.sink_ns));
    pack_u32(&p, w->epoch);
    pack_u64(&p, w->bytes);
    pack_u64(&p, c.pairs);
    pack_u64(&p, w->out_bytes);
    return worker_send(w, WIRE_DONE, &p);
}

static int on_round(struct worker *w, struct unpack *u)
{
    size_t state_bytes, splits_bytes;
    const uint8_t *state, *splits;
    int err;

    if (unpack_u32(u) != w->epoch) return 0;
    (void)unpack_u32(u); /* the round's number */
    w->sampling = unpack_u32(u);
    state = unpack_bytes(u, &state_bytes);
    splits = unpack_bytes(u, &splits_bytes);
    if (u->bad || (splits_bytes && splits_bytes != (size_t)(w->job.parts - 1) * MR_SAMPLE))
        return worker_fail(w, -EPROTO, "the master's round is damaged");
    worker_forget(w);
    w->begin_ns = gw_clock_ns();
    err = engine_begin(w->engine, state, state_bytes, splits_bytes ? splits : NULL, w->sampling);
    if (err) return worker_fail(w, err, "%s", engine_why(w->engine));
    if (w->o.verbose)
        fprintf(stderr, "rank %u maps on %s, epoch %u\n", w->o.rank, engine_name(w->engine), w->epoch);
    w->map_ns = gw_clock_ns();
    err = worker_map(w);
    w->mapped_ns = gw_clock_ns();
    if (err) {
        if (engine_stop(w->engine)) return worker_fail(w, -EIO, "%s", engine_why(w->engine));
        return err;
    }
    if (w->sampling) return send_samples(w);
    err = say_epoch(w, WIRE_MAPPED);
    if (!err) err = worker_reduce(w);
    return err ? err : send_done(w);
}

static int on_quit(struct worker *w, struct unpack *u)
{
    w->exit_code = (int)unpack_u32(u);
    unpack_text(u, w->why, sizeof(w->why));
    return 1;
}

/* 1: the job has ended. */
static int on_message(struct worker *w, uint32_t type, struct unpack *u)
{
    int err;

    if (w->failed && type != WIRE_QUIT) return 0; /* the master has not heard of it yet */
    switch (type) {
    case WIRE_JOB: return on_job(w, u);
    case WIRE_EPOCH: return on_epoch(w, u);
    case WIRE_PEERS: return on_peers(w, u);
    case WIRE_ROUND: return on_round(w, u);
    case WIRE_TASK: return 0; /* of a round that has ended */
    case WIRE_COMMIT:
        if (unpack_u32(u) != w->epoch) return 0;
        err = worker_commit(w);
        return err ? err : say_epoch(w, WIRE_COMMITTED);
    case WIRE_QUIT: return on_quit(w, u);
    default: return worker_fail(w, -EPROTO, "the master sent a message of unknown type");
    }
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* Waits for the master's next message. */
static int next_message(struct worker *w, uint32_t *type, struct unpack *u)
{
    struct pollfd p[2] = {{w->wire.fd, POLLIN, 0}, {w->o.interrupt_fd, POLLIN, 0}};

    for (;;) {
        if (wire_next(&w->wire, type, u)) return 0;
        poll(p, 2, 1000);
        if (p[0].revents && wire_read(&w->wire)) return -EPIPE;
        /* Ctrl-C reaches the master, too, and it says so to all. One that is gone cannot. */
        if (p[1].revents) poll(p, 1, 100);
    }
}

/* After an error: the master hears of it. 0: it goes on. */
static int loop_error(struct worker *w, int err)
{
    if (err == -ECANCELED) return 0; /* its message is the next one */
    if (err == -EAGAIN) return say_why(w, WIRE_LOST, w->epoch);
    if (err == -EPIPE) return err;
    w->failed = true;
    if (err == -ENODEV) {
        fprintf(stderr, "gpuwire app mapreduce: rank %u leaves the job: %s\n", w->o.rank, w->why);
        return err;
    }
    if (w->engine) (void)engine_stop(w->engine);
    return say_why(w, WIRE_FAIL, 1);
}

static void worker_close(struct worker *w)
{
    wire_close(&w->wire); /* the master waits for it */
    worker_forget(w);
    (void)worker_files_close(w, false);
    engine_close(w->engine);
    for (uint32_t i = 0; i < w->files; i++) free(w->file[i].path);
    free(w->file);
    free(w->names);
    keep_free(&w->keep);
    free(w->written);
}

/* Says who this rank is, and does what the master says. */
static int worker_work(struct worker *w, const uint8_t *cookie, size_t cookie_bytes)
{
    struct pack p = {0};
    struct unpack u;
    uint32_t type;
    bool beats;
    int err;

    pack_bytes(&p, cookie, cookie_bytes);
    pack_u32(&p, w->o.rank);
    pack_u32(&p, (uint32_t)getpid());
    err = worker_send(w, WIRE_HELLO, &p);
    beats = !err && beat_start(w);
    if (!err && !beats && !w->failed) w->failed = worker_fail(w, -ENOMEM, "no thread can be started");
    if (!err && w->failed) err = loop_error(w, -EINVAL);
    while (!err) {
        err = next_message(w, &type, &u);
        if (!err) err = on_message(w, type, &u);
        if (err < 0) err = loop_error(w, err);
    }
    if (beats) beat_stop(w);
    return err < 0 ? err : 0;
}

int worker_run(const struct worker_opts *opts, int fd, const uint8_t *cookie, size_t cookie_bytes)
{
    struct worker w = {.o = *opts, .sending = PTHREAD_MUTEX_INITIALIZER};
    int err;

    wire_open(&w.wire, fd, UINT32_MAX);
    w.failed = engine_open(&w.o.engine, &w.engine);
    if (w.failed) worker_fail(&w, w.failed, "%s", w.engine ? engine_why(w.engine) : "no memory");
    err = worker_work(&w, cookie, cookie_bytes);
    if (err) w.exit_code = 1;
    if (err == -EPIPE)
        fprintf(stderr, "gpuwire app mapreduce: rank %u: rank 0, the master, is gone: the job has failed\n",
                w.o.rank);
    worker_close(&w);
    return w.exit_code;
}
