/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's map phase: tasks from the master, pieces from files, until the kernels have mapped them all. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker_impl.h"

enum { MAX_OPEN = 256 }; /* files at a time; reads under way may use half of them */

/* ---- files --------------------------------------------------------------------------------------------- */

/* The file must be the one that the master saw, unchanged. */
static int file_same(struct worker *w, const struct worker_file *f, const char *when)
{
    struct stat st;

    if (fstat(f->fd, &st)) return worker_fail(w, -EIO, "%s: cannot look at it: %s", f->path, strerror(errno));
    if ((uint64_t)st.st_size != f->size || (uint64_t)st.st_ino != f->inode ||
        (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec != f->mtime_ns)
        return worker_fail(w, -ESTALE, "%s: the file changed %s: nothing was written. Run the job again",
                           f->path, when);
    return 0;
}

/* Closes the files that no read uses. They must not have changed. */
static int files_trim(struct worker *w)
{
    for (uint32_t i = 0; i < w->files; i++) {
        struct worker_file *f = &w->file[i];
        bool used = false;
        int err;

        for (uint32_t k = 0; k < w->pieces && f->fd >= 0 && !used; k++)
            used = w->piece[k].arg && w->piece[k].fd == f->fd;
        if (f->fd < 0 || used) continue;
        err = file_same(w, f, "while it was read");
        if (err) return err;
        close(f->fd);
        f->fd = -1;
        w->files_open--;
    }
    return 0;
}

static int file_open(struct worker *w, struct worker_file *f)
{
    int err;

    if (f->fd >= 0) return 0;
    err = w->files_open >= MAX_OPEN ? files_trim(w) : 0;
    if (err) return err;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0) return worker_fail(w, -errno, "%s: cannot read it: %s", f->path, strerror(errno));
    w->files_open++;
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return file_same(w, f, "after the job began");
}

int worker_files_close(struct worker *w, bool check)
{
    int err = 0;

    for (uint32_t i = 0; i < w->files; i++) {
        if (w->file[i].fd < 0) continue;
        if (check && !err) err = file_same(w, &w->file[i], "while it was read");
        close(w->file[i].fd);
        w->file[i].fd = -1;
    }
    w->files_open = 0;
    return err;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

void worker_task(struct worker *w, struct unpack *u)
{
    uint32_t epoch = unpack_u32(u);
    struct task t = {.file = unpack_u32(u)};

    t.offset = unpack_u64(u);
    t.bytes = unpack_u64(u);
    t.number = unpack_u64(u);
    if (u->bad || epoch != w->epoch) return;
    w->asked = false;
    if (!t.bytes)
        w->no_more = true;
    else if (w->tasks < WORKER_TASKS && t.file < w->files && t.offset < w->file[t.file].bytes &&
             t.bytes <= w->file[t.file].bytes - t.offset)
        w->task[w->tasks++] = t;
}

static int ask_task(struct worker *w)
{
    struct pack p = {0};

    if (w->asked || w->no_more || w->tasks > 1) return 0;
    pack_u32(&p, w->epoch);
    w->asked = true;
    return worker_send(w, WIRE_ASK, &p);
}

/* What the next read of the first task has: all that is left of it, or a piece. */
static uint32_t next_bytes(const struct worker *w)
{
    uint64_t left = w->task[0].bytes - w->cut;

    return (uint32_t)(left < engine_piece(w->engine) ? left : engine_piece(w->engine));
}

/* May the next piece be read now, by --rate? Its own bytes count, or a task of one piece would never wait. */
static bool within_rate(const struct worker *w)
{
    if (!w->o.rate) return true;
    return (double)(w->read + next_bytes(w)) * 1e9 <=
           (double)w->o.rate * (double)(gw_clock_ns() - w->began_ns);
}

/* Reads a piece, unless the rank has kept it: then its mapper finds it in the rank's memory. Where there is
 * room, its mapper keeps it from now on. */
static void piece_begin(struct worker *w, struct reader_piece *p)
{
    struct mr_slot *s = (struct mr_slot *)p->arg;
    bool keeps = !w->sampling && w->keep.size;
    uint64_t at = 0;

    s->is_kept = keeps && keep_find(&w->keep, s->file, s->offset, &at);
    s->keep =
        s->is_kept || (keeps && keep_add(&w->keep, s->file, s->offset, MR_LEAD + s->avail, &at)) ? at + 1 : 0;
    if (s->is_kept) {
        p->arg = NULL;
        engine_ready(w->engine, s);
    } else {
        w->read += s->bytes;
        reader_start(w->reader, p);
    }
}

/* Starts the reads of as many pieces as there are free slots for. */
static int pieces_start(struct worker *w, bool *moved)
{
    while (w->tasks && within_rate(w) && reader_busy(w->reader) < w->pieces) {
        struct task *t = &w->task[0];
        struct worker_file *f = &w->file[t->file];
        uint64_t at = t->offset + w->cut, ahead = f->bytes - at;
        uint32_t lead = at ? 1 : 0, record = w->job.record;
        uint8_t *to;
        struct mr_slot *s;
        struct reader_piece *p = w->piece;
        int err = file_open(w, f);

        if (err) return err;
        s = engine_slot(w->engine, &to);
        if (!s) return 0;
        while (p->arg) p++; /* there is one: fewer reads are under way than there are pieces */
        s->file = t->file;
        s->offset = at;
        s->number = t->number + (record ? w->cut / record : 0);
        s->bytes = next_bytes(w);
        s->avail = (uint32_t)(ahead < engine_room(w->engine) ? ahead : engine_room(w->engine));
        if (record) s->avail = s->bytes;
        s->last = s->avail == ahead;
        *p =
            (struct reader_piece){f->fd, to + MR_LEAD - lead, f->start + at - lead, s->avail + lead, 0, 0, s};
        piece_begin(w, p);
        w->bytes += s->bytes;
        w->cut += s->bytes;
        if (w->cut == t->bytes) {
            memmove(&w->task[0], &w->task[1], --w->tasks * sizeof(*t));
            w->cut = 0;
        }
        *moved = true;
    }
    return 0;
}

/* Hands what has been read to the mappers. */
static int pieces_end(struct worker *w, bool *moved)
{
    struct reader_piece *p;
    uint64_t events;
    int err = 0;

    if (reader_fd(w->reader) >= 0) (void)!read(reader_fd(w->reader), &events, sizeof(events));
    while ((p = reader_next(w->reader))) {
        struct mr_slot *s = (struct mr_slot *)p->arg;

        p->arg = NULL;
        *moved = true;
        if (err) continue;
        if (p->err)
            err = worker_fail(w, p->err, "%s: cannot read it: %s", w->file[s->file].path, strerror(-p->err));
        else if (p->got != p->bytes)
            err = worker_fail(w, -ESTALE, "%s: the file became shorter while it was read",
                              w->file[s->file].path);
        else
            engine_ready(w->engine, s);
    }
    return err;
}

/* ---- the phase ----------------------------------------------------------------------------------------- */

static int map_wrong(struct worker *w, uint32_t wrong, uint64_t detail)
{
    const struct engine_job *j = &w->job;
    unsigned long long d = detail;

    switch (wrong) {
    case MR_WRONG_STORE:
        return worker_fail(w, -ENOMEM,
                           "the pairs do not fit into rank %u's memory: more ranks, --memory BYTES, or "
                           "a job that combines",
                           w->o.rank);
    case MR_WRONG_KEY:
        return worker_fail(w, -EINVAL, "job %s emits a key of %llu bytes: 1 to %u are allowed", j->job->job,
                           d, j->key);
    case MR_WRONG_VALUE:
        return worker_fail(w, -EINVAL, "job %s emits a value of %llu bytes: %s %u", j->job->job, d,
                           j->job->combine ? "its values have" : "they have at most", j->value);
    case MR_WRONG_LONG:
        return worker_fail(w, -EMSGSIZE,
                           "the input has a %s that is too long, at byte %llu: at most %u bytes",
                           j->job->input == MR_WORDS ? "word" : "line", d,
                           j->job->input == MR_WORDS ? MR_MAX_WORD : MR_MAX_LINE);
    case MR_WRONG_LINK:
        return worker_fail(w, -EAGAIN, "the way from rank %u to another rank failed", w->o.rank);
    case MR_WRONG_PEER:
        return worker_fail(w, -EAGAIN, "another rank sent rank %u what it must not", w->o.rank);
    default: /* the executor: others can go on without it */
        return worker_fail(w, -ENODEV, "%s", engine_why(w->engine));
    }
}

/* Takes the master's messages; only tasks may come now. */
static int map_messages(struct worker *w)
{
    int err = wire_read(&w->wire);
    uint32_t type;
    struct unpack u;
    size_t used = w->wire.used;

    if (err) return -EPIPE;
    while (used = w->wire.used, wire_next(&w->wire, &type, &u)) {
        if (type != WIRE_TASK) {
            w->wire.used = used; /* the caller reads it */
            return -ECANCELED;
        }
        worker_task(w, &u);
    }
    return 0;
}

static void map_rest(struct worker *w)
{
    struct pollfd p[3] = {
        {w->wire.fd, POLLIN, 0}, {reader_fd(w->reader), POLLIN, 0}, {w->o.interrupt_fd, POLLIN, 0}};

    poll(p, 3, 1);
}

static int map_step(struct worker *w, bool *ended)
{
    bool moved = false;
    uint32_t wrong;
    uint64_t detail;
    int err = map_messages(w);

    if (!err) err = pieces_end(w, &moved);
    if (!err) err = pieces_start(w, &moved);
    if (!err && ask_task(w)) err = -EPIPE;
    if (err) return err;
    if (w->no_more && !w->tasks && !reader_busy(w->reader) && !w->said_no_more) {
        engine_no_more(w->engine);
        w->said_no_more = true;
    }
    err = engine_poll(w->engine, &wrong, &detail);
    if (err < 0) return map_wrong(w, wrong, detail);
    *ended = err == 1;
    if (!*ended && !moved) map_rest(w);
    return 0;
}

int worker_map(struct worker *w)
{
    bool ended = false;
    bool gpu = strcmp(w->o.engine.exec, "cpu") != 0;
    int err = 0, err2;

    w->tasks = 0;
    w->cut = 0;
    w->asked = w->no_more = w->said_no_more = false;
    w->bytes = w->read = 0;
    keep_begin(&w->keep);
    w->began_ns = gw_clock_ns();
    w->pieces = gpu ? 128 : 32;
    w->piece = (struct reader_piece *)calloc(w->pieces, sizeof(*w->piece));
    w->reader = reader_open(w->pieces, gpu);
    if (!w->piece || !w->reader) err = worker_fail(w, -ENOMEM, "no memory");
    while (!err && !ended) err = map_step(w, &ended);
    reader_close(w->reader);
    free(w->piece);
    w->reader = NULL;
    w->piece = NULL;
    err2 = worker_files_close(w, !err);
    if (!err && !err2) keep_end(&w->keep);
    return err ? err : err2;
}
