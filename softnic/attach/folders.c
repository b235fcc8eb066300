/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's functions that look at whole folders, or change the working directory, under their names. They name
 * files as programs know them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softnic/attach/libc.h"
#include "softnic/attach/view.h"
#include "softnic/attach/walk.h"

typedef int filter(const struct dirent *);
typedef int order(const struct dirent **, const struct dirent **);
typedef int glob_error(const char *, int);
typedef int walker(const char *, const struct stat *, int, struct FTW *);
typedef int plain_walker(const char *, const struct stat *, int);
typedef int fts_order(const FTSENT **, const FTSENT **);

static struct {
    int (*scandirat)(int, const char *, struct dirent ***, filter *, order *);
    int (*glob)(const char *, int, glob_error *, glob_t *);
    int (*chdir)(const char *);
    int (*fchdir)(int);
    char *(*getcwd)(char *, size_t);
    char *(*get_current_dir_name)(void);
    int (*nftw)(const char *, walker *, int, int);
    int (*ftw)(const char *, plain_walker *, int);
    FTS *(*fts_open)(char *const *, int, fts_order *);
} own;

/* Several threads that find the same are no harm. */
static void find_own(void)
{
    if (__atomic_load_n(&own.scandirat, __ATOMIC_ACQUIRE))
        return; /* acquire: the others were stored before it */
    sn_libc_find(&own.glob, "glob");
    sn_libc_find(&own.chdir, "chdir");
    sn_libc_find(&own.fchdir, "fchdir");
    sn_libc_find(&own.getcwd, "getcwd");
    sn_libc_find(&own.get_current_dir_name, "get_current_dir_name");
    sn_libc_find(&own.nftw, "nftw");
    sn_libc_find(&own.ftw, "ftw");
    sn_libc_find(&own.fts_open, "fts_open");
    int (*last)(int, const char *, struct dirent ***, filter *, order *);
    sn_libc_find(&last, "scandirat");
    __atomic_store_n(&own.scandirat, last, __ATOMIC_RELEASE);
}

/* ---- lists ---- */

static int hook_scandirat(int dir, const char *path, struct dirent ***names, filter *keep, order *compare)
{
    char buf[SN_VIEW_BYTES];
    find_own();
    sn_view_look(dir, &path, buf);
    return own.scandirat(dir, path, names, keep, compare);
}

static int hook_scandir(const char *path, struct dirent ***names, filter *keep, order *compare)
{
    return hook_scandirat(AT_FDCWD, path, names, keep, compare);
}

/* The part of a pattern in front of its first wildcard, with the slash that ends it. */
static size_t plain_front(const char *pattern)
{
    size_t n = strcspn(pattern, "*?[\\{~");

    while (n && pattern[n - 1] != '/') n--;
    return n;
}

/* Programs get names such as they asked for: `asked` in place of `placed`. */
static void name_found(char **path, const char *placed, const char *asked, size_t asked_n)
{
    size_t n = strlen(placed);
    char *name;

    if (strncmp(*path, placed, n)) return;
    name = malloc(asked_n + strlen(*path + n) + 1);
    if (!name) return;
    memcpy(name, asked, asked_n);
    strcpy(name + asked_n, *path + n);
    free(*path);
    *path = name;
}

static int hook_glob(const char *pattern, int flags, glob_error *on_error, glob_t *found)
{
    char front[SN_VIEW_BYTES], buf[SN_VIEW_BYTES], full[PATH_MAX];
    const char *placed = front;
    size_t n = plain_front(pattern), rest = strlen(pattern + n);
    find_own();
    if (!n || n >= sizeof(front)) return own.glob(pattern, flags, on_error, found);
    memcpy(front, pattern, n);
    front[n] = 0;
    sn_view_look(AT_FDCWD, &placed, buf);
    if (placed == front || strlen(placed) + rest >= sizeof(full))
        return own.glob(pattern, flags, on_error, found);
    strcpy(full, placed);
    strcat(full, pattern + n);
    size_t before = flags & GLOB_APPEND ? found->gl_pathc : 0;
    int err = own.glob(full, flags, on_error, found);
    size_t first = flags & GLOB_DOOFFS ? found->gl_offs : 0;
    for (size_t i = before; !err && i < found->gl_pathc; i++)
        name_found(&found->gl_pathv[first + i], placed, pattern, n);
    return err;
}

/* ---- the working directory ---- */

static int hook_chdir(const char *path)
{
    char buf[SN_VIEW_BYTES];
    find_own();
    sn_view_look(AT_FDCWD, &path, buf);
    int err = own.chdir(path);
    if (!err) sn_walk_moved();
    return err;
}

static int hook_fchdir(int fd)
{
    find_own();
    int err = own.fchdir(fd);
    if (!err) sn_walk_moved();
    return err;
}

static char *named(char *path)
{
    if (path) sn_view_name(path);
    return path;
}

static char *hook_getcwd(char *buf, size_t size)
{
    find_own();
    return named(own.getcwd(buf, size));
}

/* Callers whose buffer is too small end here, as in own. */
static char *hook_getcwd_chk(char *buf, size_t size, size_t room)
{
    if (size > room) __builtin_trap();
    return hook_getcwd(buf, size);
}

static char *hook_get_current_dir_name(void)
{
    find_own();
    return named(own.get_current_dir_name());
}

/* ---- whole folders ---- */

/* libc calls back without a word of its caller's. One thread may walk within a walk. */
static __thread struct {
    walker *each;
    plain_walker *each_plain;
} walking;

/* The name and where its last part begins, as the program knows them. */
static int walked(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    char name[PATH_MAX];
    struct FTW here = *where;
    size_t n = strlen(path);

    if (n >= sizeof(name)) return walking.each(path, st, flag, where);
    strcpy(name, path);
    sn_view_name(name);
    here.base -= (int)(n - strlen(name));
    return walking.each(name, st, flag, &here);
}

static int walked_plain(const char *path, const struct stat *st, int flag)
{
    char name[PATH_MAX];

    if (strlen(path) >= sizeof(name)) return walking.each_plain(path, st, flag);
    strcpy(name, path);
    sn_view_name(name);
    return walking.each_plain(name, st, flag);
}

static int hook_nftw(const char *path, walker *each, int fds, int flags)
{
    char buf[SN_VIEW_BYTES];
    find_own();
    if (sn_view_look(AT_FDCWD, &path, buf) != SN_SEEN_TREE) return own.nftw(path, each, fds, flags);
    walker *outer = walking.each;
    walking.each = each;
    int err = own.nftw(path, walked, fds, flags);
    walking.each = outer;
    return err;
}

static int hook_ftw(const char *path, plain_walker *each, int fds)
{
    char buf[SN_VIEW_BYTES];
    find_own();
    if (sn_view_look(AT_FDCWD, &path, buf) != SN_SEEN_TREE) return own.ftw(path, each, fds);
    plain_walker *outer = walking.each_plain;
    walking.each_plain = each;
    int err = own.ftw(path, walked_plain, fds);
    walking.each_plain = outer;
    return err;
}

/* What it finds is named by its place in the tree: libc keeps these names for its own use. */
static FTS *hook_fts_open(char *const *paths, int flags, fts_order *order)
{
    char buf[SN_VIEW_BYTES];
    size_t n = 0;
    find_own();
    while (paths[n]) n++;
    char **placed = calloc(n + 1, sizeof(*placed));
    bool ok = placed;
    for (size_t i = 0; ok && i < n; i++) {
        const char *path = paths[i];
        sn_view_look(AT_FDCWD, &path, buf);
        placed[i] = strdup(path);
        ok = placed[i];
    }
    FTS *fts = ok ? own.fts_open(placed, flags, order) : NULL;
    int err = ok ? errno : ENOMEM;
    for (size_t i = 0; placed && i < n; i++) free(placed[i]);
    free(placed);
    errno = err;
    return fts;
}

/* ---- under their names ---- */

NAMED(scandir, hook_scandir);
NAMED(scandir64, hook_scandir);
NAMED(scandirat, hook_scandirat);
NAMED(scandirat64, hook_scandirat);
NAMED(glob, hook_glob);
NAMED(glob64, hook_glob);
NAMED(chdir, hook_chdir);
NAMED(fchdir, hook_fchdir);
NAMED(getcwd, hook_getcwd);
NAMED(__getcwd_chk, hook_getcwd_chk);
NAMED(get_current_dir_name, hook_get_current_dir_name);
NAMED(ftw, hook_ftw);
NAMED(ftw64, hook_ftw);
NAMED(nftw, hook_nftw);
NAMED(nftw64, hook_nftw);
NAMED(fts_open, hook_fts_open);
NAMED(fts64_open, hook_fts_open);
