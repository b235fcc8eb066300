/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choices of earlier plans, in a text file per machine and versions: the machine in the first line, then
 * lines of a node's description, a tab, and what was fastest. The reader takes nothing on trust: a choice is
 * a name and a number, which pick.c looks up among what it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/model/gpu/cache.h"

#define MAX_FILE  (1 << 20)
#define MAX_LINES 8192

struct gwm_cache {
    char folder[PATH_MAX], path[PATH_MAX], *machine;
    struct entry {
        char *what, *choice;
    } * entry;
    size_t n;
    bool changed;
};

/* The folder of the cache in c->folder; false when there shall be none. */
static bool find_folder(struct gwm_cache *c)
{
    const char *given = getenv("GPUWIRE_PLAN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int len;

    if (getauxval(AT_SECURE) || (given && !strcmp(given, "off"))) return false;
    if (given && *given)
        len = snprintf(c->folder, sizeof(c->folder), "%s", given);
    else if (xdg && *xdg == '/')
        len = snprintf(c->folder, sizeof(c->folder), "%s/gpuwire/plans", xdg);
    else if (home && *home == '/')
        len = snprintf(c->folder, sizeof(c->folder), "%s/.cache/gpuwire/plans", home);
    else
        return false;
    return len > 0 && (size_t)len < sizeof(c->folder) - 32; /* room for names in it */
}

static const struct entry *cache_find(const struct gwm_cache *c, const char *what)
{
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->entry[i].what, what)) return &c->entry[i];
    return NULL;
}

/* Both texts are copied. Without memory the entry is left out. */
static void cache_add(struct gwm_cache *c, const char *what, const char *choice)
{
    if (c->n == MAX_LINES) return;
    char *w = strdup(what), *k = strdup(choice);
    if (w && k) {
        c->entry[c->n++] = (struct entry){w, k};
    } else {
        free(w);
        free(k);
    }
}

/* The file as a string, or NULL: only a plain file that is ours and that no other user may write. */
static char *cache_read_all(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    char *text = NULL;

    if (fd < 0) return NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) &&
        st.st_size <= MAX_FILE && (text = calloc(1, (size_t)st.st_size + 1)) &&
        read(fd, text, (size_t)st.st_size) != st.st_size) {
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

/* Adds what the file has and we have not. A file of another machine, or no such file at all, adds nothing. */
static void cache_load(struct gwm_cache *c)
{
    char *text = cache_read_all(c->path), *save = NULL, *line = text ? strtok_r(text, "\n", &save) : NULL;

    if (line && !strcmp(line, c->machine)) {
        while ((line = strtok_r(NULL, "\n", &save))) {
            char *tab = strchr(line, '\t');
            if (!tab) continue;
            *tab = '\0';
            if (!cache_find(c, line)) cache_add(c, line, tab + 1);
        }
    }
    free(text);
}

struct gwm_cache *gwm_cache_open(const char *machine)
{
    struct gwm_cache *c = (struct gwm_cache *)calloc(1, sizeof(*c));
    uint64_t h = 0xcbf29ce484222325u;

    if (!c || !find_folder(c)) {
        free(c);
        return NULL;
    }
    for (const char *s = machine; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    snprintf(c->path, sizeof(c->path), "%.*s/%016" PRIx64, (int)sizeof(c->folder) - 32, c->folder, h);
    c->machine = strdup(machine);
    c->entry = (struct entry *)calloc(MAX_LINES, sizeof(*c->entry));
    if (!c->machine || !c->entry) {
        gwm_cache_close(c);
        return NULL;
    }
    cache_load(c);
    return c;
}

const char *gwm_cache_get(const struct gwm_cache *c, const char *what)
{
    const struct entry *e = c ? cache_find(c, what) : NULL;

    return e ? e->choice : NULL;
}

void gwm_cache_put(struct gwm_cache *c, const char *what, const char *choice)
{
    if (!c) return;
    struct entry *e = (struct entry *)cache_find(c, what);
    char *copy = e ? strdup(choice) : NULL;

    c->changed = true;
    if (!e) cache_add(c, what, choice);
    if (!copy) return;
    free(e->choice);
    e->choice = copy;
}

/* mkdir -p, with no rights for others. */
static void make_folder(const char *path)
{
    char part[PATH_MAX];

    snprintf(part, sizeof(part), "%s", path);
    for (char *s = part + 1; *s; s++) {
        if (*s != '/') continue;
        *s = '\0';
        (void)mkdir(part, 0700);
        *s = '/';
    }
    (void)mkdir(part, 0700);
}

/* Under another name first: a reader never sees half of it. Choices that cannot be written are measured
 * again. */
static void cache_store(struct gwm_cache *c)
{
    char name[PATH_MAX];

    make_folder(c->folder);
    cache_load(c); /* what others have written since */
    snprintf(name, sizeof(name), "%.*s/new.XXXXXX", (int)sizeof(c->folder) - 32, c->folder);
    int fd = mkostemp(name, O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        if (fd >= 0) {
            close(fd);
            unlink(name);
        }
        return;
    }
    fprintf(f, "%s\n", c->machine);
    for (size_t i = 0; i < c->n; i++) fprintf(f, "%s\t%s\n", c->entry[i].what, c->entry[i].choice);
    bool bad = ferror(f);
    if (fclose(f) || bad || rename(name, c->path)) unlink(name);
}

void gwm_cache_close(struct gwm_cache *c)
{
    if (!c) return;
    if (c->changed) cache_store(c);
    for (size_t i = 0; i < c->n; i++) {
        free(c->entry[i].what);
        free(c->entry[i].choice);
    }
    free(c->entry);
    free(c->machine);
    free(c);
}
