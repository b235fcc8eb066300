/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tree of files that stands for sysfs, and removes trees that dead processes left. */
#include "softnic/sysfs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/sysfs/device.h"
#include "softnic/sysfs/put.h"

/*
 * A tree is $XDG_RUNTIME_DIR/gpuwire-UID/nic-PID (or under /dev/shm, /tmp, or else /var/tmp; or there in a
 * folder with an odd name, if another user took that one). Its file `lock` carries a record lock for as long
 * as its process lives: the kernel drops it even when the process is killed. A pid cannot say that: they are
 * reused, and differ between containers that share /tmp. Trees without the lock are litter. Record locks are
 * not inherited by fork, so a child never keeps its parent's tree alive.
 */
#define DEPTH           16  /* of the folders below a tree: more than there are */
#define PATH_LIMIT      200 /* libibverbs keeps paths below it in 256 bytes */
#define ABANDONED_AFTER 60  /* seconds: a tree still under its working name was cut off while being made */
#define ROOM            (16 << 20) /* bytes that memory must have left: a tree takes 0.2 MB of them */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char home[PATH_LIMIT];      /* the gpuwire-UID folder */
static char root[PATH_LIMIT + 24]; /* this process's tree */
static int lock_fd = -1;
static pid_t owner;

/* A folder of this user that no other user can write to or plant links in. */
static bool own_folder(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) && errno != EEXIST) return false;
    return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

/* Without links: so that a folder's name, as the kernel says it, tells whether it is in here. */
static bool straighten_home(void)
{
    char real[PATH_MAX];
    bool fits = realpath(home, real) && strlen(real) < sizeof(home);

    if (fits) strcpy(home, real);
    return fits;
}

/*
 * /dev/shm, where it has room. A tree is many small files for a short while. Where much was deleted just
 * before, some disks' file systems take a millisecond for each; memory never does. A container may have
 * 64 MB of it.
 */
static const char *sysfs_tree_memory(void)
{
    struct statfs fs;
    bool fit = !statfs("/dev/shm", &fs) && fs.f_type == TMPFS_MAGIC && (long)fs.f_bavail > ROOM / fs.f_bsize;
    return fit ? "/dev/shm" : NULL;
}

static bool choose_home(void)
{
    const char *parents[] = {secure_getenv("XDG_RUNTIME_DIR"), sysfs_tree_memory(), "/tmp", "/var/tmp"};

    GW_ASSERT_HELD(&lock);
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        if (!parents[i] || parents[i][0] != '/') continue;
        int n = snprintf(home, sizeof(home), "%s/gpuwire-%u", parents[i], (unsigned)geteuid());
        if (n > 0 && (size_t)n < sizeof(home) && own_folder(home)) return straighten_home();
    }
    return false;
}

/* Another user may have taken those names. This one cannot be predicted, and no other process sweeps it. */
static bool choose_odd_home(void)
{
    static const char *const parents[] = {"/tmp", "/var/tmp"};

    GW_ASSERT_HELD(&lock);
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        snprintf(home, sizeof(home), "%s/gpuwire-%u.XXXXXX", parents[i], (unsigned)geteuid());
        if (!mkdtemp(home) || !straighten_home()) continue;
        fprintf(stderr,
                "gpuwire: %s/gpuwire-%u is not this user's own folder: using %s; XDG_RUNTIME_DIR names a "
                "better place\n",
                parents[i], (unsigned)geteuid(), home);
        return true;
    }
    home[0] = 0;
    return false;
}

static const char *tree_path_locked(void)
{
    GW_ASSERT_HELD(&lock);
    if (root[0]) return root;
    if (!home[0] && !choose_home() && !choose_odd_home()) {
        fprintf(stderr,
                "gpuwire: cannot make a private folder gpuwire-%u in $XDG_RUNTIME_DIR, /dev/shm, /tmp or "
                "/var/tmp: %s; set XDG_RUNTIME_DIR to a folder of yours\n",
                (unsigned)geteuid(), strerror(errno));
        return NULL;
    }
    snprintf(root, sizeof(root), "%s/nic-%d", home, (int)getpid());
    return root;
}

const char *sn_tree_path(void)
{
    pthread_mutex_lock(&lock);
    const char *path = tree_path_locked();
    pthread_mutex_unlock(&lock);
    return path;
}

/* A child may begin in a folder of its parent's tree. */
const char *sn_tree_below(const char *path)
{
    const char *rest = NULL;
    size_t n;

    pthread_mutex_lock(&lock);
    n = strlen(home);
    if (n && !strncmp(path, home, n) && !strncmp(path + n, "/nic-", 5)) {
        rest = path + n + 5;
        rest += strspn(rest, "0123456789");
        if (*rest && *rest != '/') rest = NULL;
    }
    pthread_mutex_unlock(&lock);
    return rest;
}

/* Removes everything below a folder of ours. Depth is bounded by what we build. */
static void remove_below(int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        if (fd >= 0) close(fd);
        unlinkat(parent, name, 0);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (unlinkat(fd, e->d_name, 0) && depth > 0) remove_below(fd, e->d_name, depth - 1);
    }
    closedir(d);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static bool try_lock(int fd)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return !fcntl(fd, F_SETLK, &f);
}

/* Is the lock of the tree `name` free? `without`: what to say of one that has none. */
static bool unlocked(int home_fd, const char *name, bool without)
{
    char path[300];

    snprintf(path, sizeof(path), "%.255s/lock", name);
    int fd = openat(home_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT && without;
    bool dead = try_lock(fd);
    close(fd);
    return dead;
}

/* `nobody_makes`: no process is making a tree just now, in whatever PID namespace. */
static bool abandoned(int home_fd, const char *name, bool nobody_makes)
{
    struct stat st;

    if (!strncmp(name, "nic-", 4)) return unlocked(home_fd, name, true);
    if (strncmp(name, "new-", 4)) return false;
    if (nobody_makes) return unlocked(home_fd, name, true);
    /* One that is being made has no lock for a moment, so then its age must tell. */
    return !fstatat(home_fd, name, &st, AT_SYMLINK_NOFOLLOW) && time(NULL) - st.st_mtime > ABANDONED_AFTER;
}

static void sweep_locked(void)
{
    int fd = open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    GW_ASSERT_HELD(&lock);
    if (!d) {
        if (fd >= 0) close(fd);
        return;
    }
    const char *own = strrchr(root, '/');
    bool nobody_makes = !flock(fd, LOCK_EX | LOCK_NB);
    for (struct dirent *e; (e = readdir(d));) {
        /* Opening and closing our own lock file would drop our own record lock: never look at it. */
        if (lock_fd >= 0 && own && !strcmp(own + 1, e->d_name)) continue;
        if (abandoned(fd, e->d_name, nobody_makes)) remove_below(fd, e->d_name, DEPTH);
    }
    closedir(d);
    rmdir(home); /* succeeds only when it is empty */
}

void sn_tree_sweep(void)
{
    pthread_mutex_lock(&lock);
    if (home[0] || choose_home())
        sweep_locked();
    else
        home[0] = 0;
    pthread_mutex_unlock(&lock);
}

/* Does this file system list first what was made last? tmpfs does, at least of many kernels. */
static bool newest_first(int top)
{
    bool newest = false;
    int fd = -1;
    DIR *d = NULL;

    if (!sn_put(top, "order/1", "") && !sn_put(top, "order/2", ""))
        fd = openat(top, "order", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !(d = fdopendir(fd))) close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        newest = e->d_name[0] == '2';
        break;
    }
    if (d) closedir(d);
    remove_below(top, "order", 1);
    return newest;
}

/* Programs see the NICs in the order in which their folders are listed. The first one is what many take. */
static int write_tree(int top, const struct sn_tree_info *nics, unsigned n)
{
    int err = sn_device_write_common(top);
    bool backwards = n > 1 && newest_first(top);

    for (unsigned i = 0; i < n && !err; i++) {
        unsigned index = backwards ? n - 1 - i : i;
        err = sn_device_write(top, index, &nics[index]);
    }
    return err;
}

/* Everything is written under a working name and locked before the name becomes one that others look at. */
static int make_tree(int home_fd, const struct sn_tree_info *nics, unsigned n)
{
    char working[32];
    const char *final = strrchr(root, '/') + 1;

    GW_ASSERT_HELD(&lock);
    snprintf(working, sizeof(working), "new-%d", (int)getpid());
    remove_below(home_fd, working, DEPTH);
    if (mkdirat(home_fd, working, 0700)) return -errno;
    int top = openat(home_fd, working, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0) return -errno;
    int fd = openat(top, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int err = fd < 0 ? -errno : !try_lock(fd) ? -errno : write_tree(top, nics, n);
    close(top);
    if (!err) {
        remove_below(home_fd, final, DEPTH); /* one of a dead process that had our pid */
        if (renameat(home_fd, working, home_fd, final)) err = -errno;
    }
    if (err) {
        if (fd >= 0) close(fd);
        remove_below(home_fd, working, DEPTH);
        return err;
    }
    lock_fd = fd;
    owner = getpid();
    return 0;
}

int sn_tree_build(const struct sn_tree_info *nics, unsigned n)
{
    int err = 0;

    pthread_mutex_lock(&lock);
    if (lock_fd < 0) {
        if (!tree_path_locked()) {
            err = -EACCES;
        } else {
            /* Another process's last sweep may have removed the empty folder; make it again, twice at most.
             */
            for (int attempt = 0; attempt < 3; attempt++) {
                int fd = own_folder(home) ? open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
                /* Says to sweepers that a process makes a tree. It does not wait: if a process sweeps just
                 * now and takes ours for a dead process's, we try again. */
                if (fd >= 0) flock(fd, LOCK_SH | LOCK_NB);
                err = fd < 0 ? -errno : make_tree(fd, nics, n);
                if (fd >= 0) close(fd);
                if (err != -ENOENT) break;
            }
            if (!err) sweep_locked();
        }
        if (err && root[0]) {
            rmdir(home); /* succeeds only when it is empty */
            fprintf(stderr, "gpuwire: cannot write %s: %s; %s\n", root, strerror(-err),
                    err == -EMFILE ? "raise this process's limit (`ulimit -n`)"
                                   : "set XDG_RUNTIME_DIR to a folder of yours with room");
        }
    }
    pthread_mutex_unlock(&lock);
    return err;
}

void sn_tree_remove(void)
{
    pthread_mutex_lock(&lock);
    if (lock_fd >= 0 && owner == getpid()) {
        int fd = open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            remove_below(fd, strrchr(root, '/') + 1, DEPTH);
            close(fd);
        }
        close(lock_fd);
        lock_fd = -1;
        sweep_locked(); /* peers that were killed since left theirs */
    }
    pthread_mutex_unlock(&lock);
}

void sn_tree_forget(void)
{
    /* The parent may have held the lock at the fork, with no thread left here to release it. */
    pthread_mutex_init(&lock, NULL);
    if (lock_fd >= 0) close(lock_fd);
    lock_fd = -1;
    root[0] = 0;
}

int sn_tree_put(const char *path, const char *text)
{
    int err = -ENOENT;

    pthread_mutex_lock(&lock);
    if (lock_fd >= 0 && owner == getpid()) {
        int top = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        err = top < 0 ? -errno : sn_put_anew(top, path, text);
        if (top >= 0) close(top);
    }
    pthread_mutex_unlock(&lock);
    return err;
}
