/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's output. A partition becomes a temporary file whose name begins with a dot. It gets its name when
 * the master knows that all ranks have written theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker_impl.h"

enum { PART_BYTES = 1 << 20 };

struct out {
    struct worker *w;
    uint32_t part;
    int fd;
    const char *path;
};

static int sink_file(void *arg, const void *from, size_t bytes)
{
    struct out *o = (struct out *)arg;
    const uint8_t *at = (const uint8_t *)from;

    o->w->out_bytes += bytes;
    while (bytes) {
        ssize_t n = write(o->fd, at, bytes);

        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return worker_fail(o->w, -errno, "%s: cannot write it: %s. Nothing was written", o->path,
                               strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int sink_master(void *arg, const void *from, size_t bytes)
{
    struct out *o = (struct out *)arg;

    o->w->out_bytes += bytes;
    for (size_t at = 0; at < bytes; at += PART_BYTES) {
        struct pack p = {0};

        pack_u32(&p, o->w->epoch);
        pack_u32(&p, o->part);
        pack_bytes(&p, (const uint8_t *)from + at, bytes - at < PART_BYTES ? bytes - at : PART_BYTES);
        if (worker_send(o->w, WIRE_PART, &p)) return -EPIPE;
    }
    return 0;
}

static int part_file(struct worker *w, struct out *o)
{
    char *path = NULL;
    int err;

    if (asprintf(&path, "%s/.part-%05u.%u.%u", w->o.out, o->part, w->epoch, w->o.rank) < 0)
        return worker_fail(w, -ENOMEM, "no memory");
    w->written[o->part] = path;
    o->path = path;
    o->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o->fd < 0) return worker_fail(w, -errno, "%s: cannot write it: %s", path, strerror(errno));
    err = engine_reduce(w->engine, o->part, sink_file, o);
    if (close(o->fd) && !err) err = worker_fail(w, -errno, "%s: cannot write it: %s", path, strerror(errno));
    return err;
}

/* Has the master something else to say? */
static bool out_canceled(struct worker *w)
{
    return wire_read(&w->wire) || w->wire.have > w->wire.used;
}

int worker_reduce(struct worker *w)
{
    int err = 0;

    w->out_bytes = 0;
    w->why[0] = 0;
    for (uint32_t p = 0; p < w->job.parts && !err; p++) {
        struct out o = {w, p, -1, NULL};

        if (engine_owner(w->engine, p) != w->me) continue;
        if (out_canceled(w)) return -ECANCELED;
        err = w->o.out ? part_file(w, &o) : engine_reduce(w->engine, p, sink_master, &o);
        if (err && err != -EPIPE && !w->why[0]) worker_fail(w, err, "%s", engine_why(w->engine));
    }
    return err;
}

void worker_forget(struct worker *w)
{
    for (uint32_t p = 0; w->written && p < w->job.parts; p++) {
        if (!w->written[p]) continue;
        (void)unlink(w->written[p]);
        free(w->written[p]);
        w->written[p] = NULL;
    }
}

int worker_commit(struct worker *w)
{
    int err = 0;

    for (uint32_t p = 0; w->written && p < w->job.parts && !err; p++) {
        char *name = NULL;

        if (!w->written[p]) continue;
        if (asprintf(&name, "%s/part-%05u", w->o.out, p) < 0) return worker_fail(w, -ENOMEM, "no memory");
        if (rename(w->written[p], name))
            err = worker_fail(w, -errno, "%s: cannot rename it: %s", w->written[p], strerror(errno));
        free(name);
    }
    for (uint32_t p = 0; w->written && p < w->job.parts && !err; p++) {
        free(w->written[p]);
        w->written[p] = NULL;
    }
    return err;
}
