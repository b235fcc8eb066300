/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a job's input, and cutting it into tasks. A record belongs to the task in which it begins. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats.h"

/* The header of an .npy file. All files must have rows of one kind. */
static int input_npy(struct mr_host *h, struct mr_file *f, int fd)
{
    uint8_t *head = (uint8_t *)malloc(MR_NPY_HEADER);
    ssize_t n = head ? pread(fd, head, MR_NPY_HEADER, 0) : -1;
    struct mr_npy npy;
    int err = n < 0 ? mr_fail(h, -EIO, "%s: cannot read it: %s", f->path, strerror(errno))
                    : mr_npy_parse(head, (size_t)n, f->size, f->path, &npy);

    free(head);
    if (n < 0) return err;
    if (err) return mr_fail(h, err, "%s", gw_last_error());
    if (npy.columns > MR_MAX_RECORD / npy.item)
        return mr_fail(h, -EINVAL, "%s: a row has more than %u bytes", f->path, MR_MAX_RECORD);
    if (h->record && (h->record != npy.columns * npy.item || h->type != npy.type || h->item != npy.item))
        return mr_fail(h, -EINVAL, "%s: its rows are not like those of %s", f->path, h->file[0].path);
    h->record = (uint32_t)(npy.columns * npy.item);
    h->type = npy.type;
    h->item = npy.item;
    f->start = npy.start;
    f->bytes = npy.rows * h->record;
    return 0;
}

static int input_file(struct mr_host *h, struct mr_file *f)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC), err = 0;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        err = mr_fail(h, -errno, "%s: cannot read it: %s", f->path, strerror(errno));
    } else {
        f->size = f->bytes = (uint64_t)st.st_size;
        f->inode = st.st_ino;
        f->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
        if (h->job->input == MR_NPY) err = input_npy(h, f, fd);
    }
    if (fd >= 0) close(fd);
    return err;
}

int input_find(struct mr_host *h, char *const *paths, int n)
{
    struct mr_file *file;
    struct mr_files found;
    int err = mr_files_find(paths, n, &found);

    if (err) return mr_fail(h, err, "%s", gw_last_error());
    file = (struct mr_file *)calloc(found.n ? found.n : 1, sizeof(*file));
    if (!file) err = mr_fail(h, -ENOMEM, "no memory for the list of files");
    h->file = file;
    h->files = file ? (uint32_t)found.n : 0;
    for (uint32_t i = 0; i < h->files && !err; i++) {
        file[i].path = strdup(found.file[i].path);
        err = file[i].path ? input_file(h, &file[i]) : mr_fail(h, -ENOMEM, "no memory for the list of files");
    }
    mr_files_free(&found);
    if (!err && !h->files) err = mr_fail(h, -ENOENT, "there is no file in the input");
    return err;
}

int input_check(struct mr_host *h)
{
    struct mr_file *f = (struct mr_file *)(uintptr_t)h->file;
    uint64_t number = 0;

    if (h->job->input != MR_RECORDS && h->job->input != MR_NPY) return 0;
    if (!h->record || h->record > MR_MAX_RECORD)
        return mr_fail(h, -EINVAL, "a record must have 1 to %u bytes", MR_MAX_RECORD);
    for (uint32_t i = 0; i < h->files; i++) {
        if (f[i].bytes % h->record)
            return mr_fail(h, -EINVAL, "%s: its %llu bytes are no whole records of %u bytes", f[i].path,
                           (unsigned long long)f[i].bytes, h->record);
        f[i].first = number;
        number += f[i].bytes / h->record;
    }
    return 0;
}

void input_free(struct mr_host *h)
{
    for (uint32_t i = 0; i < h->files; i++) free(h->file[i].path);
    free((void *)(uintptr_t)h->file);
    h->file = NULL;
    h->files = 0;
}

static int tasks_add(struct mr_host *h, struct tasks *t, struct task one)
{
    if (!(t->n & (t->n - 1))) {
        struct task *more = (struct task *)realloc(t->task, (t->n ? 2 * (size_t)t->n : 1) * sizeof(*more));

        if (!more) return mr_fail(h, -ENOMEM, "no memory for the tasks");
        t->task = more;
    }
    if (h->record) one.number = h->file[one.file].first + one.offset / h->record;
    t->task[t->n++] = one;
    t->bytes += one.bytes;
    return 0;
}

/* A task's or step's length in whole records. */
static uint64_t tasks_round(const struct mr_host *h, uint64_t bytes)
{
    if (!h->record) return bytes ? bytes : 1;
    return bytes < h->record ? h->record : bytes / h->record * h->record;
}

int input_tasks(struct mr_host *h, uint64_t bytes, struct tasks *t)
{
    int err = 0;

    bytes = tasks_round(h, bytes);
    memset(t, 0, sizeof(*t));
    for (uint32_t i = 0; i < h->files; i++)
        for (uint64_t at = 0; at < h->file[i].bytes && !err; at += bytes) {
            uint64_t left = h->file[i].bytes - at;

            err = tasks_add(h, t, (struct task){i, 0, at, left < bytes ? left : bytes, 0});
        }
    return err;
}

int input_spread(struct mr_host *h, uint32_t ranks, struct tasks *t)
{
    t->given = (bool *)calloc(t->n ? t->n : 1, sizeof(*t->given));
    if (!t->given) return mr_fail(h, -ENOMEM, "no memory for the tasks");
    for (uint32_t i = 0; i < t->n; i++) t->task[i].rank = 1 + (uint32_t)((uint64_t)i * ranks / t->n);
    return 0;
}

int input_sample(struct mr_host *h, uint64_t bytes, uint32_t n, struct tasks *t)
{
    uint64_t total = 0, step, next = 0, before = 0;
    int err = 0;

    bytes = tasks_round(h, bytes);
    memset(t, 0, sizeof(*t));
    for (uint32_t i = 0; i < h->files; i++) total += h->file[i].bytes;
    step = tasks_round(h, total / n > bytes ? total / n : bytes);
    for (uint32_t i = 0; i < h->files && !err; before += h->file[i++].bytes)
        for (; next < before + h->file[i].bytes && !err; next += step) {
            uint64_t at = next - before, left;

            if (h->record) at = at / h->record * h->record;
            left = h->file[i].bytes - at;
            err = tasks_add(h, t, (struct task){i, 0, at, left < bytes ? left : bytes, 0});
        }
    return err;
}
