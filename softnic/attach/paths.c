/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's functions that take a path, under their names. A library that is preloaded, or that the program is
 * linked to, stands before libc, and its functions are called in place of libc's, from everywhere. One that
 * is loaded later patches the import tables of the verbs libraries.
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
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "softnic/attach/got.h"
#include "softnic/attach/hooks.h"
#include "softnic/attach/libc.h"
#include "softnic/attach/view.h"

/* ---- libc's own ---- */

static struct {
    int (*openat)(int, const char *, int, ...);
    DIR *(*opendir)(const char *);
    FILE *(*fopen)(const char *, const char *);
    int (*fstatat)(int, const char *, struct stat *, int);
    int (*faccessat)(int, const char *, int, int);
    ssize_t (*readlinkat)(int, const char *, char *, size_t);
    FILE *(*freopen)(const char *, const char *, FILE *);
    int (*statx)(int, const char *, int, unsigned, struct statx *);
    int (*statfs)(const char *, struct statfs *);
    int (*statvfs)(const char *, struct statvfs *);
    int (*inotify_add_watch)(int, const char *, uint32_t);
    ssize_t (*getxattr)(const char *, const char *, void *, size_t);
    ssize_t (*lgetxattr)(const char *, const char *, void *, size_t);
    int (*socket)(int, int, int);
    void *(*dlmopen)(Lmid_t, const char *, int);
    char *(*realpath)(const char *, char *);
} libc;

/* Constructors of other libraries may open files before ours has run. Several threads that find the same
 * are no harm. */
static void paths_find_libc(void)
{
    if (__atomic_load_n(&libc.realpath, __ATOMIC_ACQUIRE))
        return; /* acquire: the others were stored before it */
    sn_libc_find(&libc.openat, "openat");
    sn_libc_find(&libc.opendir, "opendir");
    sn_libc_find(&libc.fopen, "fopen");
    sn_libc_find(&libc.fstatat, "fstatat");
    sn_libc_find(&libc.faccessat, "faccessat");
    sn_libc_find(&libc.readlinkat, "readlinkat");
    sn_libc_find(&libc.freopen, "freopen");
    sn_libc_find(&libc.statx, "statx");
    sn_libc_find(&libc.statfs, "statfs");
    sn_libc_find(&libc.statvfs, "statvfs");
    sn_libc_find(&libc.inotify_add_watch, "inotify_add_watch");
    sn_libc_find(&libc.getxattr, "getxattr");
    sn_libc_find(&libc.lgetxattr, "lgetxattr");
    sn_libc_find(&libc.socket, "socket");
    sn_libc_find(&libc.dlmopen, "dlmopen");
    __atomic_store_n(&libc.realpath, (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath"),
                     __ATOMIC_RELEASE);
}

/* A device file looks like one that everybody may open. */
static const char *stand_in(int dir, const char *path, char *buf)
{
    return sn_view_look(dir, &path, buf) == SN_SEEN_DEVICE ? "/dev/null" : path;
}

/* ---- the functions ---- */

/* An address in the program or library that called. */
#define CALLER __builtin_return_address(0)

/* The kernel refuses to read what an entry of the GID table does not have (EINVAL). path: in the tree. */
static bool is_unreadable(const char *path)
{
    struct stat st;

    return strstr(path, "/gid_attrs/") && !libc.fstatat(AT_FDCWD, path, &st, 0) && S_ISREG(st.st_mode) &&
           !st.st_size;
}

/* An epoll fd refuses every read in the same way. */
static int open_unreadable(int flags)
{
    return epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
}

static int open_at(int dir, const char *path, int flags, mode_t mode, const void *caller)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    enum sn_seen seen = sn_view_look(dir, &path, buf);
    if (seen == SN_SEEN_OTHER) return libc.openat(dir, path, flags, mode);
    if (seen == SN_SEEN_TREE)
        return is_unreadable(path) ? open_unreadable(flags) : libc.openat(dir, path, flags, mode);
    int fd = sn_view_device(path, flags, caller);
    if (fd >= 0) return fd;
    errno = -fd;
    return -1;
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
    return open_at(AT_FDCWD, path, flags, mode, CALLER);
}

static int hook_openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_at(dir, path, flags, mode, CALLER);
}

static int hook_creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, CALLER);
}

static int hook_open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0, CALLER);
}

static int hook_openat_2(int dir, const char *path, int flags)
{
    return open_at(dir, path, flags, 0, CALLER);
}

static DIR *hook_opendir(const char *path)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    sn_view_look(AT_FDCWD, &path, buf);
    return libc.opendir(path);
}

static int hook_statfs(const char *path, struct statfs *st)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.statfs(stand_in(AT_FDCWD, path, buf), st);
}

static int hook_statvfs(const char *path, struct statvfs *st)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.statvfs(stand_in(AT_FDCWD, path, buf), st);
}

static int hook_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.inotify_add_watch(fd, stand_in(AT_FDCWD, path, buf), mask);
}

static FILE *hook_fopen(const char *path, const char *mode)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    enum sn_seen seen = sn_view_look(AT_FDCWD, &path, buf);
    if (seen != SN_SEEN_TREE || !is_unreadable(path)) return libc.fopen(path, mode);
    int fd = open_unreadable(O_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, mode);
}

static FILE *hook_freopen(const char *path, const char *mode, FILE *file)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    sn_view_look(AT_FDCWD, &path, buf);
    return libc.freopen(path, mode, file);
}

static int hook_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.fstatat(dir, stand_in(dir, path, buf), st, flags);
}

static int hook_stat(const char *path, struct stat *st)
{
    return hook_fstatat(AT_FDCWD, path, st, 0);
}

static int hook_lstat(const char *path, struct stat *st)
{
    return hook_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

/* Libraries that were built against a glibc before 2.33 call these. */
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

static int hook_fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
    (void)version;
    return hook_fstatat(dir, path, st, flags);
}

static int hook_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.statx(dir, stand_in(dir, path, buf), flags, mask, stx);
}

static int hook_faccessat(int dir, const char *path, int mode, int flags)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.faccessat(dir, stand_in(dir, path, buf), mode, flags);
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
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.readlinkat(dir, stand_in(dir, path, buf), out, size);
}

static ssize_t hook_readlink(const char *path, char *out, size_t size)
{
    return hook_readlinkat(AT_FDCWD, path, out, size);
}

/* Callers whose buffer is too small end here, as in libc. */
static ssize_t hook_readlink_chk(const char *path, char *out, size_t size, size_t room)
{
    if (size > room) __builtin_trap();
    return hook_readlink(path, out, size);
}

static ssize_t hook_readlinkat_chk(int dir, const char *path, char *out, size_t size, size_t room)
{
    if (size > room) __builtin_trap();
    return hook_readlinkat(dir, path, out, size);
}

static char *hook_realpath(const char *path, char *out)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    enum sn_seen seen = sn_view_look(AT_FDCWD, &path, buf);
    if (seen == SN_SEEN_DEVICE) return out ? strcpy(out, path) : strdup(path);
    char *real = libc.realpath(path, out);
    if (real && seen == SN_SEEN_TREE) sn_view_name(real);
    return real;
}

static char *hook_canonicalize_file_name(const char *path)
{
    return hook_realpath(path, NULL);
}

static char *hook_realpath_chk(const char *path, char *out, size_t size)
{
    if (size < PATH_MAX) __builtin_trap();
    return hook_realpath(path, out);
}

/* `ls -l` asks for these. */
static ssize_t hook_getxattr(const char *path, const char *name, void *value, size_t size)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.getxattr(stand_in(AT_FDCWD, path, buf), name, value, size);
}

static ssize_t hook_lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    char buf[SN_VIEW_BYTES];
    paths_find_libc();
    return libc.lgetxattr(stand_in(AT_FDCWD, path, buf), name, value, size);
}

/* The kernel tells of its RDMA devices in a protocol of its own, too. Without it, all libraries read sysfs.
 */
static int hook_socket(int family, int type, int protocol)
{
    paths_find_libc();
    if (family != AF_NETLINK || protocol != NETLINK_RDMA || !sn_view_shown())
        return libc.socket(family, type, protocol);
    errno = EPROTONOSUPPORT;
    return -1;
}

/*
 * A library in a link namespace of its own has a libc of its own, and does not see us. The loader may look
 * for a bare name on behalf of dlmopen's caller, so that call comes last here. A path means the same to all
 * callers.
 */
static void *hook_dlmopen(Lmid_t space, const char *path, int flags)
{
    paths_find_libc();
    bool apart = path && space != LM_ID_BASE && sn_view_shown();
    if (apart && !strchr(path, '/')) sn_hooks_name_apart(path, NULL);
    if (!apart || !strchr(path, '/')) return libc.dlmopen(space, path, flags);
    void *handle = libc.dlmopen(space, path, flags);
    if (handle) sn_hooks_name_apart(path, handle);
    return handle;
}

/* ---- under their names ---- */

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
NAMED(__fxstatat, hook_fxstatat);
NAMED(__fxstatat64, hook_fxstatat);
NAMED(statx, hook_statx);
NAMED(statfs, hook_statfs);
NAMED(statfs64, hook_statfs);
NAMED(statvfs, hook_statvfs);
NAMED(statvfs64, hook_statvfs);
NAMED(inotify_add_watch, hook_inotify_add_watch);
NAMED(creat, hook_creat);
NAMED(creat64, hook_creat);
NAMED(freopen, hook_freopen);
NAMED(freopen64, hook_freopen);
NAMED(getxattr, hook_getxattr);
NAMED(lgetxattr, hook_lgetxattr);
NAMED(socket, hook_socket);
NAMED(dlmopen, hook_dlmopen);
NAMED(access, hook_access);
NAMED(faccessat, hook_faccessat);
NAMED(euidaccess, hook_euidaccess);
NAMED(eaccess, hook_euidaccess);
NAMED(readlink, hook_readlink);
NAMED(readlinkat, hook_readlinkat);
NAMED(__readlink_chk, hook_readlink_chk);
NAMED(__readlinkat_chk, hook_readlinkat_chk);
NAMED(canonicalize_file_name, hook_canonicalize_file_name);
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

bool sn_paths_in_front(void)
{
    const char *list = getenv("LD_PRELOAD");
    return (list && strstr(list, SN_LIBRARY)) || dlsym(RTLD_DEFAULT, "open") == (void *)hook_open;
}

void sn_paths_apply(const char *const *libs)
{
    if (!sn_paths_in_front()) sn_got_patch(libs, hooks, sizeof(hooks) / sizeof(hooks[0]));
}
