/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the verbs libraries call in place of libc's. */
#include "softnic/attach/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
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
#include <rdma/rdma_user_ioctl_cmds.h>

#include "softnic/attach/got.h"
#include "softnic/attach/paths.h"
#include "softnic/cm/cm.h"
#include "softnic/uverbs/uverbs.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define REFUSED  (-10) /* libnl's NLE_OPNOTSUPP; its callers look at the sign only */

/* A program that opens a device checks that it is one. */
static int hook_fstat(int fd, struct stat *st)
{
    return ucm_is_fd(fd) ? stat("/dev/null", st) : fstat(fd, st);
}

static int hook_fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return hook_fstat(fd, st);
}

static int hook_ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);

    /* A program may import the device by a copy of the fd, and that begins with this request. */
    if (!uv_is_command_fd(fd) && !(request == RDMA_VERBS_IOCTL && uv_adopt(fd)))
        return ioctl(fd, request, arg);
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

/* ---- functions that libibverbs has from others, or gives to them: its copies need their own ---- */

/* Finds what that name means to the library in which `caller` is. */
static void *meant_by(const void *caller, const char *name)
{
    Dl_info info;
    void *handle = dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *symbol = dlsym(handle ? handle : RTLD_DEFAULT, name);
    if (handle) dlclose(handle);
    return symbol;
}

/* libibverbs looks for its providers. If one belongs to another copy of it, this one finds no device. */
static void name_two_copies(const void *caller, void *provider)
{
    static int said;
    Dl_info asks, serves;
    void *set_ops = dlsym(provider, "verbs_set_ops");

    if (!set_ops || !dladdr(set_ops, &serves) || !dladdr(caller, &asks)) return;
    if (asks.dli_fbase == serves.dli_fbase || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
    fprintf(stderr,
            "gpuwire: %s finds no device: it is the process's second libibverbs, and libmlx5 serves the "
            "first, %s; "
            "have the program load one of them only\n",
            asks.dli_fname, serves.dli_fname);
}

static void *hook_dlopen(const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    const char *base = path ? strrchr(path, '/') : NULL;

    base = base ? base + 1 : path;
    if (handle && base && !strncmp(base, "libmlx5", 7)) name_two_copies(__builtin_return_address(0), handle);
    if (handle) sn_hooks_apply();
    return handle;
}

struct nl_sock;
struct verbs_context_ops;

/* Were the kernel asked over netlink, it would list the real devices, or none; refused, libibverbs reads
 * sysfs. */
static int hook_nl_connect(struct nl_sock *sock, int protocol)
{
    int (*own)(struct nl_sock *, int) =
        (int (*)(struct nl_sock *, int))meant_by(__builtin_return_address(0), "nl_connect");
    return protocol == NETLINK_RDMA || !own ? REFUSED : own(sock, protocol);
}

static void name_unknown_context(const void *function)
{
    static int said;
    Dl_info lib;

    if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
    fprintf(stderr,
            "gpuwire: %s has contexts of an unknown form: the NIC's own thread does all of the work, so each "
            "request takes longer; report the version of this library\n",
            dladdr(function, &lib) ? lib.dli_fname : "libibverbs");
}

typedef void set_ops_fn(void *verbs_context, const struct verbs_context_ops *ops);

/* libmlx5 fills in a context's entry points: soon is the moment to put ours in front of four of them. */
static void hook_verbs_set_ops(void *verbs_context, const struct verbs_context_ops *ops)
{
    /* By name, not by linking: it has another version in every release. */
    void *own = meant_by(__builtin_return_address(0), "verbs_set_ops");
    struct ibv_context *context = uv_context_in(verbs_context);

    if (own) ((set_ops_fn *)own)(verbs_context, ops);
    if (context)
        uv_context_ready(context);
    else
        name_unknown_context(own);
}

static const char *const all_libs[] = {"libibverbs.so", "libmlx5", "librdmacm.so", NULL};
static const char *const mlx5_libs[] = {"libmlx5", NULL};

static const struct sn_hook libc_hooks[] = {
    {"fstat", hook_fstat},       {"fstat64", hook_fstat},         {"__fxstat", hook_fxstat},
    {"__fxstat64", hook_fxstat}, {"ioctl", hook_ioctl},           {"write", hook_write},
    {"mmap", hook_mmap},         {"mmap64", hook_mmap},           {"close", hook_close},
    {"dlopen", hook_dlopen},     {"nl_connect", hook_nl_connect},
};

static const struct sn_hook mlx5_hooks[] = {{"verbs_set_ops", hook_verbs_set_ops}};

int sn_hooks_apply(void)
{
    int a = sn_got_patch(all_libs, libc_hooks, COUNT(libc_hooks));
    int b = a < 0 ? 0 : sn_got_patch(mlx5_libs, mlx5_hooks, COUNT(mlx5_hooks));
    if (a >= 0 && b >= 0) sn_paths_apply(all_libs);
    return a < 0 ? a : b < 0 ? b : a + b;
}

void sn_hooks_apply_at(const void *address)
{
    sn_got_patch_at(address, libc_hooks, COUNT(libc_hooks));
}

static bool is_verbs(const char *path)
{
    const char *base = strrchr(path, '/');

    base = base ? base + 1 : path;
    for (const char *const *lib = all_libs; *lib; lib++)
        if (!strncmp(base, *lib, strlen(*lib))) return true;
    return false;
}

void sn_hooks_name_apart(const char *path, void *handle)
{
    struct link_map *map = NULL;
    const char *found = is_verbs(path) ? path : NULL;

    if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map))
        for (; map && !found; map = map->l_next)
            if (is_verbs(map->l_name)) found = map->l_name;
    if (found)
        fprintf(stderr,
                "gpuwire: %s is loaded into a link namespace of its own (dlmopen), where the software NIC is "
                "not; load "
                "it with dlopen\n",
                found);
}
