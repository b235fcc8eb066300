/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's functions that take a path, under their names. A library that is preloaded, or that the program is
 * linked to, stands before libc, and its functions are called in place of libc's, whoever calls. One that is
 * loaded later patches the import tables of the verbs libraries.
 */
#include "softnic/attach/paths.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softnic/attach/got.h"
#include "softnic/attach/hooks.h"
#include "softnic/attach/signals.h"
#include "softnic/cm/cm.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/uverbs.h"

#define PATH_BYTES 512

/* ---- libc's own ---- */

static struct {
    int (*openat)(int, const char *, int, ...);
    DIR *(*opendir)(const char *);
    FILE *(*fopen)(const char *, const char *);
    int (*fstatat)(int, const char *, struct stat *, int);
    int (*faccessat)(int, const char *, int, int);
    ssize_t (*readlinkat)(int, const char *, char *, size_t);
    char *(*realpath)(const char *, char *);
} libc;

/* Constructors of other libraries may open files before ours has run. Several threads that find the same are no
 * harm. */
static void find_libc(void)
{
    if (__atomic_load_n(&libc.realpath, __ATOMIC_ACQUIRE))
        return; /* acquire: the others were stored before it */
    libc.openat = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    libc.opendir = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    libc.fopen = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    libc.fstatat = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
    libc.faccessat = (int (*)(int, const char *, int, int))dlsym(RTLD_NEXT, "faccessat");
    libc.readlinkat = (ssize_t(*)(int, const char *, char *, size_t))dlsym(RTLD_NEXT, "readlinkat");
    __atomic_store_n(&libc.realpath, (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath"),
                     __ATOMIC_RELEASE);
}

/* ---- which paths are the NIC's ---- */

static char believed_root[256];
static bool shown; /* atomic */

void sn_paths_set_root(const char *root)
{
    snprintf(believed_root, sizeof(believed_root), "%s", root);
    __atomic_store_n(&shown, true, __ATOMIC_RELEASE); /* whoever sees it sees the root */
}

void sn_paths_hide(void)
{
    __atomic_store_n(&shown, false, __ATOMIC_RELEASE);
}

/* What follows `root` in the path, when it is one of the folders that list devices; NULL: it is not. */
static const char *below(const char *path, const char *root)
{
    static const char *const folders[] = {"/class/infiniband", "/class/misc/rdma_cm"};
    size_t n = strlen(root);
    if (!n || strncmp(path, root, n)) return NULL;
    for (int i = 0; i < 2; i++)
        if (!strncmp(path + n, folders[i], strlen(folders[i]))) return path + n;
    return NULL;
}

static bool is_cdev(const char *path)
{
    return sn_tree_cdev(path, UV_MAX_NICS) >= 0 || !strcmp(path, SN_RDMA_CM_PATH);
}

enum kind { NOT_OURS, TREE, CDEV };

/* A path of the tree is rewritten into `buf`. The tree is made when somebody first looks, and each look is a moment
 * to find the libraries that were loaded since. */
static enum kind look(const char **path, char *buf)
{
    const char *p = *path, *rest;
    struct sn_tree_info nics[UV_MAX_NICS];
    if (!p || p[0] != '/' || !__atomic_load_n(&shown, __ATOMIC_ACQUIRE)) return NOT_OURS;
    if (!strncmp(p, SN_DEV_FOLDER, sizeof(SN_DEV_FOLDER) - 1)) {
        if (is_cdev(p)) return CDEV;
        rest = p;
    } else {
        rest = below(p, "/sys");
        if (!rest) rest = below(p, believed_root);
    }
    if (!rest) return NOT_OURS;
    sn_hooks_apply();
    int count = uv_tree_info(nics);
    if (count < 0 || sn_tree_build(nics, (unsigned)count)) return NOT_OURS;
    const char *own = sn_tree_path();
    int len = own ? snprintf(buf, PATH_BYTES, "%s%s", own, rest) : -1;
    if (len < 0 || len >= PATH_BYTES) return NOT_OURS;
    *path = buf;
    return TREE;
}

/* A device file looks like one that everybody may open. */
static const char *stand_in(const char *path, char *buf)
{
    return look(&path, buf) == CDEV ? "/dev/null" : path;
}

/* ---- the functions ---- */

/* libmlx5 was loaded by now, whoever did it: its calls must be ours before it makes the first one. */
static int open_cdev(const char *path, int flags)
{
    sn_hooks_apply();
    sn_signals_apply(); /* for libraries that were loaded since */
    int nic = sn_tree_cdev(path, UV_MAX_NICS),
        fd = nic < 0 ? ucm_open(flags, &uv_callbacks) : uv_open(flags, (unsigned)nic);
    if (fd >= 0) return fd;
    errno = -fd;
    return -1;
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char buf[PATH_BYTES];
    find_libc();
    if (look(&path, buf) == CDEV) return open_cdev(path, flags);
    return libc.openat(dir, path, flags, mode);
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

static int hook_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_at(AT_FDCWD, path, flags, mode);
}

static int hook_openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_at(dir, path, flags, mode);
}

static int hook_open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

static int hook_openat_2(int dir, const char *path, int flags)
{
    return open_at(dir, path, flags, 0);
}

static DIR *hook_opendir(const char *path)
{
    char buf[PATH_BYTES];
    find_libc();
    look(&path, buf);
    return libc.opendir(path);
}

static FILE *hook_fopen(const char *path, const char *mode)
{
    char buf[PATH_BYTES];
    find_libc();
    look(&path, buf);
    return libc.fopen(path, mode);
}

static int hook_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    char buf[PATH_BYTES];
    find_libc();
    return libc.fstatat(dir, stand_in(path, buf), st, flags);
}

static int hook_stat(const char *path, struct stat *st)
{
    return hook_fstatat(AT_FDCWD, path, st, 0);
}

static int hook_lstat(const char *path, struct stat *st)
{
    return hook_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

/* What libraries built against a glibc before 2.33 call. */
static int hook_xstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return hook_stat(path, st);
}

static int hook_lxstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return hook_lstat(path, st);
}

static int hook_faccessat(int dir, const char *path, int mode, int flags)
{
    char buf[PATH_BYTES];
    find_libc();
    return libc.faccessat(dir, stand_in(path, buf), mode, flags);
}

static int hook_access(const char *path, int mode)
{
    return hook_faccessat(AT_FDCWD, path, mode, 0);
}

static int hook_euidaccess(const char *path, int mode)
{
    return hook_faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

static ssize_t hook_readlinkat(int dir, const char *path, char *out, size_t size)
{
    char buf[PATH_BYTES];
    find_libc();
    return libc.readlinkat(dir, stand_in(path, buf), out, size);
}

static ssize_t hook_readlink(const char *path, char *out, size_t size)
{
    return hook_readlinkat(AT_FDCWD, path, out, size);
}

static char *hook_realpath(const char *path, char *out)
{
    char buf[PATH_BYTES];
    find_libc();
    if (look(&path, buf) == CDEV) return out ? strcpy(out, path) : strdup(path);
    return libc.realpath(path, out);
}

/* Callers whose buffer is too small end here, as in libc. */
static char *hook_realpath_chk(const char *path, char *out, size_t size)
{
    if (size < PATH_MAX) __builtin_trap();
    return hook_realpath(path, out);
}

/* ---- under their names ---- */

/* By the linker's name alone: the headers declare some with other types, and some not at all. */
#define NAMED(name, hook)                                                                                    \
    extern __typeof__(hook) named_##name __asm__(#name) __attribute__((visibility("default"), alias(#hook)))
NAMED(open, hook_open);
NAMED(open64, hook_open);
NAMED(__open_2, hook_open_2);
NAMED(__open64_2, hook_open_2);
NAMED(openat, hook_openat);
NAMED(openat64, hook_openat);
NAMED(__openat_2, hook_openat_2);
NAMED(__openat64_2, hook_openat_2);
NAMED(opendir, hook_opendir);
NAMED(fopen, hook_fopen);
NAMED(fopen64, hook_fopen);
NAMED(fstatat, hook_fstatat);
NAMED(fstatat64, hook_fstatat);
NAMED(stat, hook_stat);
NAMED(stat64, hook_stat);
NAMED(lstat, hook_lstat);
NAMED(lstat64, hook_lstat);
NAMED(__xstat, hook_xstat);
NAMED(__xstat64, hook_xstat);
NAMED(__lxstat, hook_lxstat);
NAMED(__lxstat64, hook_lxstat);
NAMED(access, hook_access);
NAMED(faccessat, hook_faccessat);
NAMED(euidaccess, hook_euidaccess);
NAMED(eaccess, hook_euidaccess);
NAMED(readlink, hook_readlink);
NAMED(readlinkat, hook_readlinkat);
NAMED(realpath, hook_realpath);
NAMED(__realpath_chk, hook_realpath_chk);

static const struct sn_hook hooks[] = {
    {"open", hook_open},           {"open64", hook_open},           {"__open_2", hook_open_2},
    {"__open64_2", hook_open_2},   {"openat", hook_openat},         {"openat64", hook_openat},
    {"__openat_2", hook_openat_2}, {"__openat64_2", hook_openat_2}, {"opendir", hook_opendir},
    {"fopen", hook_fopen},         {"fopen64", hook_fopen},         {"stat", hook_stat},
    {"stat64", hook_stat},         {"__xstat", hook_xstat},         {"__xstat64", hook_xstat},
    {"access", hook_access},       {"readlink", hook_readlink},
};

void sn_paths_apply(const char *const *libs)
{
    if (dlsym(RTLD_DEFAULT, "open") == (void *)hook_open) return;
    sn_got_patch(libs, hooks, sizeof(hooks) / sizeof(hooks[0]));
}
