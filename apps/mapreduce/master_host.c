/* SPDX-License-Identifier: Apache-2.0 */
/* What the host parts of jobs call. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "master_impl.h"

int mr_fail(struct mr_host *h, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(h->why, sizeof(h->why), format, args);
    va_end(args);
    return err;
}

void *mr_state(struct mr_host *h, uint64_t bytes)
{
    free(h->state);
    h->state = calloc(1, bytes ? bytes : 1);
    h->state_bytes = h->state ? bytes : 0;
    return h->state;
}

uint64_t mr_records(const struct mr_host *h)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < h->files && h->record; i++) n += h->file[i].bytes / h->record;
    return n;
}

/* Reads n bytes at offset `at` of a file's data. */
static int host_read(struct mr_host *h, const struct mr_file *f, uint64_t at, uint64_t n, uint8_t *to)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC), err = 0;

    if (fd < 0) return mr_fail(h, -errno, "%s: cannot read it: %s", f->path, strerror(errno));
    while (n && !err) {
        ssize_t got = pread(fd, to, n, (off_t)(f->start + at));

        if (got < 0 && errno == EINTR) continue;
        if (got < 0) err = mr_fail(h, -errno, "%s: cannot read it: %s", f->path, strerror(errno));
        if (got == 0) err = mr_fail(h, -ESTALE, "%s: the file became shorter", f->path);
        if (err) break;
        to += got;
        at += (uint64_t)got;
        n -= (uint64_t)got;
    }
    close(fd);
    return err;
}

int mr_read(struct mr_host *h, uint64_t first, uint64_t n, void *to)
{
    uint8_t *at = (uint8_t *)to;
    int err = 0;

    if (!h->record) return mr_fail(h, -EINVAL, "mr_read: the input has no records");
    for (uint32_t i = 0; i < h->files && n && !err; i++) {
        uint64_t have = h->file[i].bytes / h->record, take;

        if (first >= have) {
            first -= have;
            continue;
        }
        take = have - first < n ? have - first : n;
        err = host_read(h, &h->file[i], first * h->record, take * h->record, at);
        at += take * h->record;
        n -= take;
        first = 0;
    }
    return err ? err : n ? mr_fail(h, -ERANGE, "the input has fewer records than the job wants") : 0;
}

int gathered_add(struct gathered *g, const void *from, uint64_t bytes)
{
    if (g->bytes + bytes > g->room) {
        uint64_t room = 2 * (g->bytes + bytes);
        uint8_t *at = (uint8_t *)realloc(g->at, room);

        if (!at) return -ENOMEM;
        g->at = at;
        g->room = room;
    }
    memcpy(g->at + g->bytes, from, bytes);
    g->bytes += bytes;
    return 0;
}

int mr_result(struct mr_host *h, const void *from, uint64_t bytes)
{
    struct master *m = (struct master *)h->engine;
    int err = bytes ? gathered_add(&m->result, from, bytes) : 0;

    return err ? mr_fail(h, err, "no memory for the result") : 0;
}
