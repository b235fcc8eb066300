/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through a model repository. */
#include "src/server/worker/repository.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <jansson.h>

#include "src/door/plain.h"

static unsigned repository_version_of(const char *name)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(name, &end, 10);
    if (errno || *end || name[0] < '1' || name[0] > '9' || v > 1000000000ul) return 0;
    return (unsigned)v;
}

bool gw_repository_is_plugin(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".so");
}

/* The file of one version, which the caller frees. NULL: there is none, unless *error is set. */
static char *repository_find_file(const char *folder, const char *version, int *err)
{
    static const char *const names[] = {"model.so", "model.onnx/model.onnx", "model.onnx"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s/%s", folder, version, names[i]) < 0) {
            *err = -ENOMEM;
            return NULL;
        }
        if (!access(path, F_OK)) return path;
        free(path);
    }
    return NULL;
}

static int has_config(const char *folder)
{
    char *path = NULL;
    if (asprintf(&path, "%s/config.pbtxt", folder) < 0) return 0;
    int has = !access(path, F_OK);
    free(path);
    return has;
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
    int err = 0;
    for (struct dirent *v; !err && (v = readdir(d));) {
        unsigned number = repository_version_of(v->d_name);
        char *path = number > e->version ? repository_find_file(folder, v->d_name, &err) : NULL;
        if (!path) continue;
        free(e->path);
        e->path = path;
        e->version = number;
    }
    closedir(d);
    e->has_config = has_config(folder);
    free(folder);
    if (!err && e->version && !(e->name = strdup(name))) err = -ENOMEM;
    if (err) free(e->path);
    return err;
}

/* ---- models that are not served ---- */

/* The doors speak JSON and protobuf, and both take UTF-8 alone. */
static bool is_utf8(const char *name)
{
    json_t *word = json_string(name);
    json_decref(word);
    return word != NULL;
}

/* A copy that the doors can say. In a name that is no UTF-8, a question mark stands for what is not ASCII. */
static char *repository_name_of(const char *folder)
{
    char plain[NAME_MAX + 1];
    return strdup(is_utf8(folder) ? folder : gw_plain_text(plain, sizeof(plain), folder));
}

static bool is_link(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

/* The name of a file in the version's folder, which the caller frees; NULL: there is none. Clients are told
 * of it. So files that a link leads to have no name (""): a user who may write to the repository must not
 * read with the server's rights. */
static char *any_file(const char *folder, const char *version)
{
    char *path = NULL, *found = NULL;
    if (asprintf(&path, "%s/%s", folder, version) < 0) return NULL;
    if (is_link(folder) || is_link(path)) {
        free(path);
        return strdup("");
    }
    DIR *d = opendir(path);
    free(path);
    if (!d) return NULL;
    for (struct dirent *e; !found && (e = readdir(d));)
        if (e->d_name[0] != '.') found = repository_name_of(e->d_name);
    closedir(d);
    return found;
}

/* The highest version that has a file at all. Sets *file, which the caller frees. */
static unsigned find_other_version(const char *folder, char **file)
{
    unsigned highest = 0;
    DIR *d = opendir(folder);
    if (!d) return 0;
    for (struct dirent *v; (v = readdir(d));) {
        unsigned number = repository_version_of(v->d_name);
        char *name = number > highest ? any_file(folder, v->d_name) : NULL;
        if (!name) continue;
        free(*file);
        *file = name;
        highest = number;
    }
    closedir(d);
    return highest;
}

/* Takes over what `o` holds, also when it fails. */
static int keep_other(struct gw_repository *r, const struct gw_repository_other *o)
{
    struct gw_repository_other *more =
        o->name && o->why ? realloc(r->other, (r->others + 1) * sizeof(*more)) : NULL;
    if (!more) {
        free(o->name);
        free(o->why);
        return -ENOMEM;
    }
    r->other = more;
    r->other[r->others++] = *o;
    return 0;
}

/* dir/name has no file of ours. Is it a model all the same? */
static int look_at_other(struct gw_repository *r, const char *dir, const char *name)
{
    struct gw_repository_other o = {.name = repository_name_of(name)};
    char *folder = NULL, *file = NULL;
    int n = 0;
    if (!o.name || asprintf(&folder, "%s/%s", dir, name) < 0) {
        free(o.name);
        return -ENOMEM;
    }
    o.version = find_other_version(folder, &file);
    if (o.version && !*file)
        n = asprintf(&o.why, "it has neither model.onnx nor model.so");
    else if (o.version)
        n = asprintf(&o.why, "it has %s, and neither model.onnx nor model.so", file);
    else if (has_config(folder))
        n = asprintf(&o.why, "it has a config.pbtxt and no version: %s/1/model.onnx is expected", o.name);
    free(file);
    free(folder);
    if (n < 0) o.why = NULL;
    if (n) return keep_other(r, &o);
    free(o.name);
    return 0;
}

/* A model of ours whose name no client could say. Takes over what `e` holds. */
static int refuse_name(struct gw_repository *r, struct gw_repository_entry *e)
{
    struct gw_repository_other o = {
        .name = repository_name_of(e->name),
        .version = e->version,
        .why = strdup("its folder's name is no UTF-8, so no client could ask for it")};
    free(e->name);
    free(e->path);
    return keep_other(r, &o);
}

static int repository_by_name(const void *a, const void *b)
{
    return strcmp(((const struct gw_repository_entry *)a)->name,
                  ((const struct gw_repository_entry *)b)->name);
}

/* Takes the entry's texts over, also when it fails. */
static int repository_keep(struct gw_repository *r, const struct gw_repository_entry *e)
{
    struct gw_repository_entry *more = realloc(r->entry, (r->count + 1) * sizeof(*more));
    if (!more) {
        free(e->name);
        free(e->path);
        return -ENOMEM;
    }
    r->entry = more;
    r->entry[r->count++] = *e;
    return 0;
}

int gw_repository_scan(const char *dir, struct gw_repository *out)
{
    memset(out, 0, sizeof(*out));
    DIR *d = opendir(dir);
    if (!d) return gw_error(-errno, "model repository %s: %s", dir, strerror(errno));
    int err = 0;
    for (struct dirent *m; !err && (m = readdir(d));) {
        struct gw_repository_entry e;
        if (m->d_name[0] == '.') continue;
        err = find_version(dir, m->d_name, &e);
        if (err) break;
        if (!e.version)
            err = look_at_other(out, dir, m->d_name);
        else
            err = is_utf8(e.name) ? repository_keep(out, &e) : refuse_name(out, &e);
    }
    closedir(d);
    if (!err && !out->count && out->others)
        err = gw_error(-ENOENT, "model repository %s: no model in it that runs here; %s: %s", dir,
                       out->other->name, out->other->why);
    else if (!err && !out->count)
        err = gw_error(-ENOENT, "model repository %s: no model in it; expected NAME/1/model.onnx or model.so",
                       dir);
    if (err)
        gw_repository_free(out);
    else
        qsort(out->entry, out->count, sizeof(*out->entry), repository_by_name);
    return err;
}

void gw_repository_free(struct gw_repository *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->entry[i].name);
        free(r->entry[i].path);
    }
    for (size_t i = 0; i < r->others; i++) {
        free(r->other[i].name);
        free(r->other[i].why);
    }
    free(r->entry);
    free(r->other);
    memset(r, 0, sizeof(*r));
}
