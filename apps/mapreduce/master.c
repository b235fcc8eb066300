/* SPDX-License-Identifier: Apache-2.0 */
/* The master: a job from its input's files to its output's names. */
#include "master.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "master_impl.h"

enum { MIN_TASK = 256 << 10, MAX_TASK = 16 << 20, SAMPLE_PIECES = 64, SAMPLE_BYTES = 64 << 10, QUIT_S = 5 };

int master_fail(struct master *m, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!m->r->why[0]) vsnprintf(m->r->why, sizeof(m->r->why), format, args);
    va_end(args);
    return err;
}

static int host_failed(struct master *m, int err)
{
    return err ? master_fail(m, err, "%s", m->host.why[0] ? m->host.why : strerror(-err)) : 0;
}

/* ---- before -------------------------------------------------------------------------------------------- */

/* The output's folder must be new or have no parts. */
static int out_folder(struct master *m)
{
    struct dirent *entry;
    int err = 0;
    DIR *d;

    if (!m->o.out) return 0;
    if (mkdir(m->o.out, 0777) && errno != EEXIST)
        return master_fail(m, -errno, "%s: cannot make this folder: %s", m->o.out, strerror(errno));
    d = opendir(m->o.out);
    if (!d) return master_fail(m, -errno, "%s: cannot read this folder: %s", m->o.out, strerror(errno));
    while ((entry = readdir(d)) && !err)
        if (!strncmp(entry->d_name, "part-", 5))
            err = master_fail(m, -EEXIST, "%s has an output already (%s): name another folder, or remove it",
                              m->o.out, entry->d_name);
    closedir(d);
    m->out_is_ours = !err;
    return err;
}

static int find_input(struct master *m)
{
    struct mr_host *h = &m->host;
    uint64_t bytes = m->o.task, total = 0;
    int err = input_find(h, m->o.input, m->o.inputs);

    h->ranks = m->o.ranks;
    if (!err && h->job->setup) err = h->job->setup(h, m->o.n_args, (char **)m->o.args);
    if (!err && !h->job->setup && m->o.n_args)
        err = mr_fail(h, -EINVAL, "job %s takes no arguments", h->job->job);
    if (!err) err = input_check(h);
    for (uint32_t i = 0; i < h->files; i++) total += h->file[i].bytes;
    if (!bytes) bytes = total / (4 * m->o.ranks);
    if (!m->o.task) bytes = bytes < MIN_TASK ? MIN_TASK : bytes > MAX_TASK ? MAX_TASK : bytes;
    if (!err) err = input_tasks(h, bytes, &m->tasks);
    if (!err && h->job->flags & MR_KEEP) err = input_spread(h, m->o.ranks, &m->tasks);
    if (!err && h->job->flags & MR_ORDER) err = input_sample(h, SAMPLE_BYTES, SAMPLE_PIECES, &m->sample);
    return host_failed(m, err);
}

static void say_job(struct master *m)
{
    struct mr_host *h = &m->host;
    struct pack p = {0};

    pack_bytes(&p, h->job->job, strlen(h->job->job));
    pack_u32(&p, h->record);
    pack_u32(&p, h->key);
    pack_u32(&p, h->value);
    pack_u32(&p, h->keys);
    pack_u32(&p, m->r->parts);
    pack_u64(&p, m->tasks.bytes);
    pack_u32(&p, h->files);
    for (uint32_t i = 0; i < h->files; i++) {
        const struct mr_file *f = &h->file[i];

        pack_bytes(&p, f->path, strlen(f->path));
        pack_u64(&p, f->start);
        pack_u64(&p, f->bytes);
        pack_u64(&p, f->first);
        pack_u64(&p, f->inode);
        pack_u64(&p, f->mtime_ns);
        pack_u64(&p, f->size);
    }
    master_say(m, WIRE_JOB, &p);
}

/* ---- after --------------------------------------------------------------------------------------------- */

static int write_all(struct master *m, int fd, const char *name, const struct gathered *g)
{
    for (uint64_t at = 0; at < g->bytes;) {
        ssize_t n = write(fd, g->at + at, g->bytes - at);

        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return master_fail(m, -errno, "%s: cannot write it: %s", name, strerror(errno));
        at += (uint64_t)n;
    }
    return 0;
}

/* An iterative job's result becomes part-00000. */
static int write_result(struct master *m)
{
    char *name = NULL, *temporary = NULL;
    int fd, err;

    if (asprintf(&name, "%s/part-00000", m->o.out) < 0 ||
        asprintf(&temporary, "%s/.part-00000", m->o.out) < 0)
        return master_fail(m, -ENOMEM, "no memory");
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    err = fd < 0 ? master_fail(m, -errno, "%s: cannot write it: %s", temporary, strerror(errno))
                 : write_all(m, fd, temporary, &m->result);
    if (fd >= 0 && close(fd) && !err)
        err = master_fail(m, -errno, "%s: cannot write it: %s", temporary, strerror(errno));
    if (!err && rename(temporary, name))
        err = master_fail(m, -errno, "%s: cannot rename it: %s", temporary, strerror(errno));
    if (err) (void)unlink(temporary);
    free(name);
    free(temporary);
    return err;
}

/* Temporary files of ranks that died. */
static void sweep(struct master *m)
{
    DIR *d = m->out_is_ours ? opendir(m->o.out) : NULL;
    struct dirent *entry;

    while (d && (entry = readdir(d)))
        if (!strncmp(entry->d_name, ".part-", 6)) (void)unlinkat(dirfd(d), entry->d_name, 0);
    if (d) closedir(d);
}

static int finish_output(struct master *m)
{
    int err = 0;

    if (m->o.job->round)
        err = m->o.out ? write_result(m) : write_all(m, 1, "standard output", &m->result);
    else
        for (uint32_t i = 0; i < m->r->parts && !m->o.out && !err; i++)
            err = write_all(m, 1, "standard output", &m->part[i]);
    return err;
}

/* ---- the job ------------------------------------------------------------------------------------------- */

/* All that the round's reduces have put, in the order of the parts, to the job. */
static int job_round(struct master *m)
{
    struct gathered all = {0};
    int err = 0;

    for (uint32_t i = 0; i < m->r->parts && !err; i++)
        if (m->part[i].bytes) err = gathered_add(&all, m->part[i].at, m->part[i].bytes);
    m->host.ranks = m->alive;
    if (!err) err = m->o.job->round(&m->host, all.at, all.bytes);
    free(all.at);
    return err;
}

static int run_rounds(struct master *m)
{
    int err, more = 0;

    do {
        err = master_round(m);
        m->r->rounds++;
        if (err) return err;
        if (!m->o.job->round) return 0;
        more = job_round(m);
        if (more < 0) return host_failed(m, more);
        m->host.round++;
    } while (more);
    return 0;
}

static int run_job(struct master *m)
{
    int err;

    say_job(m);
    err = master_sample(m);
    if (!err) err = run_rounds(m);
    /* A rank that dies before it has named its files takes their only copies along. */
    while (!err && m->o.out && !m->o.job->round && (err = master_commit(m)) == -EAGAIN) err = master_round(m);
    if (!err) err = finish_output(m);
    for (uint32_t i = 0; i < m->o.ranks; i++)
        if (m->rank[i].alive) {
            m->r->pairs += m->rank[i].counts.pairs;
            m->r->out += m->rank[i].counts.out;
        }
    return err;
}

static void say_quit(struct master *m, int err)
{
    struct pack p = {0};

    m->exit_code = err == -EINTR ? 130 : err ? 1 : 0;
    pack_u32(&p, (uint32_t)m->exit_code);
    pack_bytes(&p, m->r->why, strlen(m->r->why));
    master_say(m, WIRE_QUIT, &p);
}

/* Waits until the ranks have read the last message. A connection that is closed while the other side sends
 * is reset, and takes along what that side has not read. */
static void wait_quit(struct master *m)
{
    uint64_t until = gw_deadline(QUIT_S * (uint64_t)1000000000);

    for (uint32_t i = 0; i < m->o.ranks; i++)
        if (m->rank[i].alive) (void)shutdown(m->rank[i].wire.fd, SHUT_WR);
    for (uint32_t i = 0; i < m->o.ranks; i++) {
        struct wire *w = &m->rank[i].wire;
        struct pollfd p = {w->fd, POLLIN, 0};

        while (m->rank[i].alive && gw_clock_ns() < until && !wire_read(w)) {
            w->used = w->have; /* unread: the job has ended */
            poll(&p, 1, 100);
        }
    }
}

static void master_close(struct master *m)
{
    for (uint32_t i = 0; i < m->o.ranks; i++) {
        wire_close(&m->rank[i].wire);
        free(m->rank[i].ends);
    }
    for (uint32_t i = 0; m->part && i < m->r->parts; i++) free(m->part[i].at);
    free(m->part);
    free(m->result.at);
    free(m->rank);
    free(m->splits);
    free(m->tasks.given);
    free(m->tasks.task);
    free(m->sample.task);
    free(m->host.state);
    input_free(&m->host);
}

int master_run(const struct master_opts *opts, int listener, const uint8_t *cookie, size_t cookie_bytes,
               struct master_result *r)
{
    struct master m = {.o = *opts, .r = r};
    int err;

    memset(r, 0, sizeof(*r));
    r->parts = opts->parts ? opts->parts : opts->ranks;
    m.host = (struct mr_host){.job = opts->job,
                              .record = opts->job->record,
                              .key = opts->job->key,
                              .value = opts->job->value,
                              .engine = &m};
    m.rank = (struct member *)calloc(opts->ranks, sizeof(*m.rank));
    m.part = (struct gathered *)calloc(r->parts, sizeof(*m.part));
    if (!m.rank || !m.part) return 1;
    for (uint32_t i = 0; i < opts->ranks; i++) m.rank[i].wire.fd = -1;
    err = master_meet(&m, listener, cookie, cookie_bytes);
    if (!err) err = out_folder(&m);
    if (!err) err = find_input(&m);
    if (!err) err = run_job(&m);
    sweep(&m);
    r->seconds = m.began_ns ? (double)(gw_clock_ns() - m.began_ns) / 1e9 : 0;
    r->bytes = m.tasks.bytes;
    r->files = m.host.files;
    r->alive = m.alive;
    if (m.host.job->finish) m.host.job->finish(&m.host);
    if (opts->progress) fprintf(stderr, "\r%60s\r", "");
    if (err) fprintf(stderr, "gpuwire app mapreduce: %s\n", r->why);
    say_quit(&m, err);
    wait_quit(&m);
    master_close(&m);
    return m.exit_code;
}
