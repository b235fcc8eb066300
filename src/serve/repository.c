/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/repository.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

static unsigned version_of(const char *name)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(name, &end, 10);
    if (errno || *end || name[0] < '1' || name[0] > '9' || v > 1000000000ul) return 0;
    return (unsigned)v;
}

int gw_repository_is_plugin(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".so");
}

/* The file of one version, which the caller frees. NULL: there is none, unless *error is set. */
static char *find_file(const char *folder, const char *version, int *error)
{
    static const char *const names[] = {"model.so", "model.onnx"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s/%s", folder, version, names[i]) < 0) {
            *error = -ENOMEM;
            return NULL;
        }
        if (!access(path, F_OK)) return path;
        free(path);
    }
    return NULL;
}

/* The highest version of the model in `dir`/`name`, and its file; version 0 when there is none. */
static int find_version(const char *dir, const char *name, struct gw_repository_entry *e)
{
    char *folder = NULL;
    memset(e, 0, sizeof(*e));
    if (asprintf(&folder, "%s/%s", dir, name) < 0) return -ENOMEM;
    DIR *d = opendir(folder);
    if (!d) {
        free(folder);
        return 0;
    }
    int error = 0;
    for (struct dirent *v; !error && (v = readdir(d));) {
        unsigned number = version_of(v->d_name);
        char *path = number > e->version ? find_file(folder, v->d_name, &error) : NULL;
        if (!path) continue;
        free(e->path);
        e->path = path;
        e->version = number;
    }
    closedir(d);
    free(folder);
    if (!error && e->version && !(e->name = strdup(name))) error = -ENOMEM;
    if (error) free(e->path);
    return error;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gw_repository_entry *)a)->name,
                  ((const struct gw_repository_entry *)b)->name);
}

static int keep(struct gw_repository *r, const struct gw_repository_entry *e)
{
    struct gw_repository_entry *more = realloc(r->entry, (r->count + 1) * sizeof(*more));
    if (!more) return -ENOMEM;
    r->entry = more;
    r->entry[r->count++] = *e;
    return 0;
}

int gw_repository_scan(const char *dir, struct gw_repository *out)
{
    memset(out, 0, sizeof(*out));
    DIR *d = opendir(dir);
    if (!d) return gw_error(-errno, "model repository %s: %s", dir, strerror(errno));
    int error = 0;
    for (struct dirent *m; !error && (m = readdir(d));) {
        struct gw_repository_entry e;
        if (m->d_name[0] == '.') continue;
        error = find_version(dir, m->d_name, &e);
        if (!error && e.version) error = keep(out, &e);
    }
    closedir(d);
    if (!error && !out->count)
        error = gw_error(-ENOENT,
                         "model repository %s: no model in it; expected NAME/1/model.onnx or model.so", dir);
    if (error)
        gw_repository_free(out);
    else
        qsort(out->entry, out->count, sizeof(*out->entry), by_name);
    return error;
}

void gw_repository_free(struct gw_repository *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->entry[i].name);
        free(r->entry[i].path);
    }
    free(r->entry);
    memset(r, 0, sizeof(*r));
}
