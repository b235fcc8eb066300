/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a job's arguments name. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "formats.h"

static int files_add(struct mr_files *f, const char *path, uint64_t size)
{
    struct mr_found *more = f->file;

    if (f->n == MR_MAX_FILES) return gw_error(-E2BIG, "%s: there are more than %d files", path, MR_MAX_FILES);
    if (!(f->n & (f->n - 1)))
        more = (struct mr_found *)realloc(f->file, (f->n ? 2 * f->n : 1) * sizeof(*f->file));
    if (more) f->file = more;
    if (!more || !(more[f->n].path = strdup(path)))
        return gw_error(-ENOMEM, "%s: no memory for the list", path);
    more[f->n++].size = size;
    return 0;
}

static int look(struct mr_files *f, const char *path, int depth);

static int look_into(struct mr_files *f, const char *path, int depth)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    char *below;
    int err = 0;

    if (!d) return gw_error_errno(-errno, "%s: cannot read this folder", path);
    while (!err && (entry = readdir(d))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (asprintf(&below, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry->d_name) < 0)
            below = NULL, err = gw_error(-ENOMEM, "%s: no memory", path);
        else
            err = look(f, below, depth + 1);
        free(below);
    }
    closedir(d);
    return err;
}

/* depth 0: the user named it. What lies in folders and is no file, a pipe say, is passed over. */
static int look(struct mr_files *f, const char *path, int depth)
{
    struct stat st;

    if (fstatat(AT_FDCWD, path, &st, depth ? AT_SYMLINK_NOFOLLOW : 0))
        return depth && errno == ENOENT ? 0 : gw_error_errno(-errno, "%s: cannot read it", path);
    if (S_ISDIR(st.st_mode)) {
        if (depth == MR_MAX_DEPTH)
            return gw_error(-E2BIG, "%s: there are more than %d folders in each other", path, MR_MAX_DEPTH);
        return look_into(f, path, depth);
    }
    if (!S_ISREG(st.st_mode)) return depth ? 0 : gw_error(-EINVAL, "%s: neither a file nor a folder", path);
    if (access(path, R_OK)) return gw_error_errno(-errno, "%s: cannot read it", path);
    return files_add(f, path, (uint64_t)st.st_size);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct mr_found *)a)->path, ((const struct mr_found *)b)->path);
}

int mr_files_find(char *const *paths, int n, struct mr_files *files)
{
    int err = 0;

    memset(files, 0, sizeof(*files));
    for (int i = 0; i < n && !err; i++)
        err = *paths[i] ? look(files, paths[i], 0) : gw_error(-EINVAL, "a file's name is empty");
    if (err) mr_files_free(files);
    if (files->n) qsort(files->file, files->n, sizeof(*files->file), by_path);
    return err;
}

void mr_files_free(struct mr_files *files)
{
    for (size_t i = 0; i < files->n; i++) free(files->file[i].path);
    free(files->file);
    memset(files, 0, sizeof(*files));
}
