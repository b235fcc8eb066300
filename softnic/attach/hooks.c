/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/attach/hooks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "softnic/attach/got.h"
#include "softnic/attach/signals.h"
#include "softnic/cm/cm.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/uverbs.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define REFUSED  (-10) /* libnl's NLE_OPNOTSUPP; its callers look at the sign only */

static char believed_root[256];

void sn_hooks_set_root(const char *root)
{
    snprintf(believed_root, sizeof(believed_root), "%s", root);
}

/*
 * A path below the class folders that libibverbs looks for devices in leads to our tree, which is written
 * when it is first looked at. Usually the path is already ours (SYSFS_PATH); after a late install or a fork
 * it is rewritten.
 */
static const char *redirect(const char *path, char *buf, size_t size)
{
    static const char class[] = "/class/infiniband", misc[] = "/class/misc/rdma_cm";
    size_t n = strlen(believed_root);

    if (!path || !n || strncmp(path, believed_root, n)) return path;
    if (strncmp(path + n, class, sizeof(class) - 1) && strncmp(path + n, misc, sizeof(misc) - 1)) return path;
    struct sn_tree_info nics[UV_MAX_NICS];
    int count = uv_tree_info(nics);
    if (count < 0 || sn_tree_build(nics, (unsigned)count)) return path;
    const char *own = sn_tree_path();
    if (!own || !strcmp(own, believed_root)) return path;
    int len = snprintf(buf, size, "%s%s", own, path + n);
    return len > 0 && (size_t)len < size ? buf : path;
}

static bool is_cdev(const char *path)
{
    return path && (sn_tree_cdev(path, UV_MAX_NICS) >= 0 || !strcmp(path, SN_RDMA_CM_PATH));
}

/* By now libmlx5 is loaded. Its calls must be ours before it makes the first one. */
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
    char buf[512];

    if (is_cdev(path)) return open_cdev(path, flags);
    return openat(dir, redirect(path, buf, sizeof(buf)), flags, mode);
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
    char buf[512];
    return opendir(redirect(path, buf, sizeof(buf)));
}

static FILE *hook_fopen(const char *path, const char *mode)
{
    char buf[512];
    return fopen(redirect(path, buf, sizeof(buf)), mode);
}

static int hook_stat(const char *path, struct stat *st)
{
    char buf[512];
    return stat(is_cdev(path) ? "/dev/null" : redirect(path, buf, sizeof(buf)), st);
}

/* Libraries built against a glibc before 2.33 call these. */
static int hook_xstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return hook_stat(path, st);
}

/* Programs that open a device check that it is one. */
static int hook_fstat(int fd, struct stat *st)
{
    return ucm_is_fd(fd) ? stat("/dev/null", st) : fstat(fd, st);
}

static int hook_fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return hook_fstat(fd, st);
}

static int hook_access(const char *path, int mode)
{
    char buf[512];
    return access(is_cdev(path) ? "/dev/null" : redirect(path, buf, sizeof(buf)), mode);
}

static int hook_ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);

    if (!uv_is_command_fd(fd)) return ioctl(fd, request, arg);
    int err = uv_ioctl(fd, request, (uint64_t)(uintptr_t)arg);
    if (!err) return 0;
    errno = -err;
    return -1;
}

static ssize_t hook_write(int fd, const void *buf, size_t bytes)
{
    /* The write() form of the commands is what libibverbs falls back to only when the ioctl form is missing.
     */
    if (uv_is_command_fd(fd)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (ucm_is_fd(fd)) {
        ssize_t n = ucm_write(fd, buf, bytes);

        if (n >= 0) return n;
        errno = (int)-n;
        return -1;
    }
    return write(fd, buf, bytes);
}

static void *hook_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
    if (fd < 0 || !uv_is_command_fd(fd)) return mmap(addr, length, prot, flags, fd, offset);
    void *at = MAP_FAILED;
    int err = uv_mmap(fd, addr, length, prot, flags, (uint64_t)offset, &at);
    if (err) errno = -err;
    return at;
}

static int hook_close(int fd)
{
    uv_close(fd);
    ucm_close(fd);
    return close(fd);
}

static void *hook_dlopen(const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    if (handle) sn_hooks_apply();
    return handle;
}

struct nl_sock;
struct verbs_context_ops;

/* The functions that the libraries themselves would have reached; looked up before anything is diverted. */
static struct {
    int (*nl_connect)(struct nl_sock *, int);
    void (*verbs_set_ops)(struct verbs_context *, const struct verbs_context_ops *);
} original;

static bool find_originals(void)
{
    /* By name, not by linking: verbs_set_ops has another version in every release. */
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!verbs) return false;
    original.nl_connect = (int (*)(struct nl_sock *, int))dlsym(verbs, "nl_connect");
    original.verbs_set_ops =
        (void (*)(struct verbs_context *, const struct verbs_context_ops *))dlsym(verbs, "verbs_set_ops");
    dlclose(verbs);
    return original.verbs_set_ops;
}

/* Were the kernel asked over netlink, it would list the real devices, or none; refused, libibverbs reads
 * sysfs. */
static int hook_nl_connect(struct nl_sock *sock, int protocol)
{
    return protocol == NETLINK_RDMA || !original.nl_connect ? REFUSED : original.nl_connect(sock, protocol);
}

/* libmlx5 fills in a context's entry points: soon is the moment to put ours in front of four of them. */
static void hook_verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops)
{
    original.verbs_set_ops(vctx, ops);
    uv_context_ready(&vctx->context);
}

static const char *const all_libs[] = {"libibverbs.so", "libmlx5", "librdmacm.so", NULL};
static const char *const mlx5_libs[] = {"libmlx5", NULL};

static const struct sn_hook libc_hooks[] = {
    {"open", hook_open},
    {"open64", hook_open},
    {"__open_2", hook_open_2},
    {"__open64_2", hook_open_2},
    {"openat", hook_openat},
    {"openat64", hook_openat},
    {"__openat_2", hook_openat_2},
    {"__openat64_2", hook_openat_2},
    {"opendir", hook_opendir},
    {"fopen", hook_fopen},
    {"fopen64", hook_fopen},
    {"stat", hook_stat},
    {"stat64", hook_stat},
    {"__xstat", hook_xstat},
    {"__xstat64", hook_xstat},
    {"fstat", hook_fstat},
    {"fstat64", hook_fstat},
    {"__fxstat", hook_fxstat},
    {"__fxstat64", hook_fxstat},
    {"access", hook_access},
    {"ioctl", hook_ioctl},
    {"write", hook_write},
    {"mmap", hook_mmap},
    {"mmap64", hook_mmap},
    {"close", hook_close},
    {"dlopen", hook_dlopen},
    {"nl_connect", hook_nl_connect},
};

static const struct sn_hook mlx5_hooks[] = {{"verbs_set_ops", hook_verbs_set_ops}};

int sn_hooks_apply(void)
{
    if (!original.verbs_set_ops && !find_originals()) return 0;
    int a = sn_got_patch(all_libs, libc_hooks, COUNT(libc_hooks));
    int b = a < 0 ? 0 : sn_got_patch(mlx5_libs, mlx5_hooks, COUNT(mlx5_hooks));
    return a < 0 ? a : b < 0 ? b : a + b;
}
