/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches the NIC to the process: before its main(), and after each fork. */
#include <gpuwire/softnic.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/attach/got.h"
#include "softnic/attach/gpus.h"
#include "softnic/attach/hooks.h"
#include "softnic/attach/paths.h"
#include "softnic/attach/signals.h"
#include "softnic/attach/view.h"
#include "softnic/cm/cm.h"
#include "softnic/runtime/process.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/uverbs.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool installed, at_fork_set;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    ucm_fork_prepare();
    uv_fork_prepare();
}

static void after_fork_parent(void)
{
    uv_fork_parent();
    ucm_fork_parent();
    pthread_mutex_unlock(&lock);
}

static void after_fork_child(void)
{
    uv_fork_child();
    ucm_fork_child();
    sn_tree_forget();
    pthread_mutex_unlock(&lock);
}

/*
 * libibverbs reads SYSFS_PATH once and keeps it. Let it read ours now and put the variable back, so that
 * neither the program nor its children see it.
 */
static const char *lend_sysfs_path(const char *path, const char *(*get_sysfs_path)(void))
{
    const char *old = getenv("SYSFS_PATH");
    char *kept = old ? strdup(old) : NULL;

    setenv("SYSFS_PATH", path, 1);
    const char *believed = get_sysfs_path();
    if (kept)
        setenv("SYSFS_PATH", kept, 1);
    else
        unsetenv("SYSFS_PATH");
    free(kept);
    return believed;
}

/*
 * Our own calls go to libc itself. Another preloaded library may stand before it and take them for the
 * program's: librspreload would make the NIC's sockets rsockets, which need the NIC.
 */
static void call_libc_directly(void)
{
    static const char *const names[] = {
        "socket",     "bind",       "listen",   "accept",   "connect", "recv",        "recvfrom",
        "recvmsg",    "read",       "readv",    "send",     "sendto",  "sendmsg",     "write",
        "writev",     "poll",       "select",   "shutdown", "close",   "getpeername", "getsockname",
        "setsockopt", "getsockopt", "fcntl",    "fcntl64",  "dup2",    "sendfile",    "fstat",
        "open",       "openat",     "opendir",  "fopen",    "stat",    "lstat",       "fstatat",
        "access",     "readlink",   "realpath", "glob",     "scandir", "getcwd",      "statfs"};
    static const char *const self[] = {SN_LIBRARY, NULL};
    struct sn_hook hooks[sizeof(names) / sizeof(names[0])];
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    size_t n = 0;

    for (size_t i = 0; libc && i < sizeof(names) / sizeof(names[0]); i++) {
        void *function = dlsym(libc, names[i]);

        if (function) hooks[n++] = (struct sn_hook){names[i], function};
    }
    sn_got_patch(self, hooks, n);
    if (libc) dlclose(libc);
}

/*
 * The folder that libibverbs takes for /sys. Where we stand before libc, that may be any. Elsewhere only
 * the verbs libraries' calls are ours, so libibverbs is told another one; it is loaded now, unless the
 * program has.
 */
static const char *choose_root(const char *path)
{
    const char *given = secure_getenv("SYSFS_PATH");
    void *verbs = sn_paths_in_front() ? NULL : dlopen("libibverbs.so.1", RTLD_NOW);
    /* Exported to its providers; its header is not installed. */
    void *get = verbs ? dlsym(verbs, "ibv_get_sysfs_path") : NULL;

    if (get) return lend_sysfs_path(path, (const char *(*)(void))get);
    return given ? given : "/sys";
}

static int install_locked(void)
{
    const char *path = sn_tree_path();
    if (!path) return -EACCES; /* which has said why */

    call_libc_directly();
    sn_view_show(choose_root(path));
    int changed = sn_hooks_apply();
    if (changed < 0) {
        fprintf(stderr,
                "gpuwire: cannot attach the software NIC to libibverbs: its import table is not writable\n");
        sn_view_hide();
        sn_got_restore();
        return changed;
    }
    if (!changed && !sn_paths_in_front()) {
        fprintf(stderr, "gpuwire: cannot attach the software NIC: this process has no libibverbs.so.1\n");
        sn_view_hide();
        return -ENOENT;
    }
    sn_signals_apply();
    if (!at_fork_set) pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    at_fork_set = true;
    installed = true;
    return 0;
}

/* For libraries that were loaded since. */
static int later_locked(void)
{
    int changed = sn_hooks_apply();
    sn_signals_apply();
    return changed < 0 ? changed : 0;
}

EXPORT int softnic_install(void)
{
    pthread_mutex_lock(&lock);
    int err = installed ? later_locked() : install_locked();
    pthread_mutex_unlock(&lock);
    return err;
}

EXPORT int softnic_same_host(char *text, size_t size)
{
    struct sn_process_info info;
    int err = sn_process_nic_info(0, &info);

    if (!err) snprintf(text, size, "%s", info.local);
    return err;
}

EXPORT int softnic_hostile(void)
{
    struct sn_process_info info;
    int err = sn_process_nic_info(0, &info);

    return err ? err : info.config.hostile;
}

EXPORT int softnic_uninstall(void)
{
    int err = 0;

    pthread_mutex_lock(&lock);
    if (installed) {
        if (uv_open_files()) {
            err = -EBUSY;
        } else {
            sn_view_hide();
            sn_got_restore();
            sn_tree_remove();
            installed = false;
        }
    }
    pthread_mutex_unlock(&lock);
    return err;
}

/* The program does not know of a preloaded library: it will not call softnic_install. */
__attribute__((constructor)) static void install_when_preloaded(void)
{
    const char *list = getenv("LD_PRELOAD");
    if (!list || !strstr(list, SN_LIBRARY)) return;
    softnic_install();
    sn_gpus_tell_near();
}

__attribute__((destructor)) static void install_clean_up(void)
{
    sn_tree_remove();
}
