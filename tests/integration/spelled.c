/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of libc that reads a path reaches the NIC's files by each spelling, and leaves them by "..".
 * Prints what does not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int wrong;

static void check(bool right, const char *call, const char *base, const char *path)
{
    if (right) return;
    fprintf(stderr, "%s of %s from %s: not the NIC's\n", call, path, base);
    wrong++;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* Each says whether it finds the NIC. `dir`: the open folder, or AT_FDCWD; `path`: of a folder that has
 * mlx5_0. */

static const char *in(const char *path, const char *rest)
{
    static char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s/%s", path, rest);
    return full;
}

static bool has_type(int fd)
{
    char c = 0;
    bool right = fd >= 0 && read(fd, &c, 1) == 1 && c == '1';

    if (fd >= 0) close(fd);
    return right;
}

static bool at_openat(int dir, const char *path)
{
    return has_type(openat(dir, in(path, "mlx5_0/node_type"), O_RDONLY));
}

static bool at_fstatat(int dir, const char *path)
{
    struct stat st, link;

    return !fstatat(dir, in(path, "mlx5_0"), &st, 0) && S_ISDIR(st.st_mode) &&
           !fstatat(dir, in(path, "mlx5_0/device"), &link, AT_SYMLINK_NOFOLLOW) && S_ISLNK(link.st_mode);
}

static bool at_statx(int dir, const char *path)
{
    struct statx st;

    return !statx(dir, in(path, "mlx5_0/node_type"), 0, STATX_TYPE, &st) && S_ISREG(st.stx_mode);
}

static bool at_faccessat(int dir, const char *path)
{
    return !faccessat(dir, in(path, "mlx5_0/ports"), X_OK, 0);
}

static bool at_readlinkat(int dir, const char *path)
{
    char link[PATH_MAX];

    return readlinkat(dir, in(path, "mlx5_0/device"), link, sizeof(link)) > 0;
}

static bool has_entry(struct dirent **names, int n)
{
    bool found = false;

    for (int i = 0; i < n; i++) {
        found |= !strcmp(names[i]->d_name, "mlx5_0");
        free(names[i]);
    }
    if (n >= 0) free(names);
    return found;
}

static bool at_scandirat(int dir, const char *path)
{
    struct dirent **names;

    return has_entry(names, scandirat(dir, path, &names, NULL, NULL));
}

/* As hwloc does it. */
static bool at_fdopendir(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;

    for (struct dirent *e; d && (e = readdir(d));) found |= !strcmp(e->d_name, "mlx5_0");
    if (d) closedir(d);
    return found;
}

static bool by_open(int dir, const char *path)
{
    (void)dir;
    return has_type(open(in(path, "mlx5_0/node_type"), O_RDONLY));
}

static bool by_fopen(int dir, const char *path)
{
    FILE *f = fopen(in(path, "mlx5_0/node_type"), "r");
    bool right = f && fgetc(f) == '1';

    (void)dir;
    f = f ? freopen(in(path, "mlx5_0/ports/1/link_layer"), "r", f) : NULL;
    right = right && f && fgetc(f) == 'E';
    if (f) fclose(f);
    return right;
}

static bool by_stat(int dir, const char *path)
{
    struct stat st;

    (void)dir;
    return !stat(in(path, "mlx5_0"), &st) && !lstat(in(path, "mlx5_0/device"), &st) && S_ISLNK(st.st_mode);
}

static bool by_statfs(int dir, const char *path)
{
    struct statfs fs;
    struct statvfs vfs;

    (void)dir;
    return !statfs(in(path, "mlx5_0"), &fs) && !statvfs(in(path, "mlx5_0"), &vfs);
}

static bool by_access(int dir, const char *path)
{
    (void)dir;
    return !access(in(path, "mlx5_0"), R_OK) && !euidaccess(in(path, "mlx5_0"), R_OK) &&
           access(in(path, "mlx5_9"), F_OK) && errno == ENOENT;
}

static bool by_readlink(int dir, const char *path)
{
    char link[PATH_MAX];

    (void)dir;
    return readlink(in(path, "mlx5_0/device"), link, sizeof(link)) > 0;
}

static bool by_realpath(int dir, const char *path)
{
    char *device = realpath(in(path, "mlx5_0/device"), NULL),
         *same = canonicalize_file_name(in(path, "mlx5_0"));
    bool right =
        device && same && !strncmp(device, "/sys/devices/pci", 16) && !strncmp(same, device, strlen(device));

    (void)dir;
    free(device);
    free(same);
    return right;
}

static bool by_opendir(int dir, const char *path)
{
    DIR *d = opendir(path);
    bool found = false;

    (void)dir;
    for (struct dirent *e; d && (e = readdir(d));) found |= !strcmp(e->d_name, "mlx5_0");
    if (d) closedir(d);
    return found;
}

static bool by_scandir(int dir, const char *path)
{
    struct dirent **names;

    (void)dir;
    return has_entry(names, scandir(path, &names, NULL, NULL));
}

static bool by_glob(int dir, const char *path)
{
    glob_t found;
    char state = 0;

    (void)dir;
    if (glob(in(path, "mlx5_*/node_typ[e]"), 0, NULL, &found) || found.gl_pathc != 1) return false;
    int fd = open(found.gl_pathv[0], O_RDONLY);
    bool right = (found.gl_pathv[0][0] == '/') == (path[0] == '/') && fd >= 0 && read(fd, &state, 1) == 1;
    close(fd);
    globfree(&found);
    return right && state == '1';
}

static int seen;

static int each(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st;
    (void)flag;
    seen += !strncmp(path, "/sys/", 5) && !strcmp(path + where->base, "link_layer");
    return 0;
}

static int each_plain(const char *path, const struct stat *st, int flag)
{
    (void)st;
    (void)flag;
    seen += !strncmp(path, "/sys/", 5) && strstr(path, "/ports/1/link_layer");
    return 0;
}

static bool by_ftw(int dir, const char *path)
{
    (void)dir;
    seen = 0;
    return !nftw(in(path, "mlx5_0/ports"), each, 8, FTW_PHYS) && seen == 1 &&
           !ftw(in(path, "mlx5_0/ports"), each_plain, 8) && seen >= 2;
}

static bool by_fts(int dir, const char *path)
{
    char full[PATH_MAX], *paths[2] = {full, NULL};
    bool found = false;

    (void)dir;
    snprintf(full, sizeof(full), "%s", in(path, "mlx5_0/"));
    FTS *fts = fts_open(paths, FTS_PHYSICAL, NULL);
    for (FTSENT *e; fts && (e = fts_read(fts));) found |= !strcmp(e->fts_name, "node_type");
    if (fts) fts_close(fts);
    return found;
}

static bool by_others(int dir, const char *path)
{
    int fd = inotify_init1(IN_CLOEXEC);
    bool right = inotify_add_watch(fd, in(path, "mlx5_0"), IN_MODIFY) >= 0;

    (void)dir;
    close(fd);
    return right && getxattr(in(path, "mlx5_0"), "user.none", NULL, 0) < 0 && errno != ENOENT;
}

static const struct call {
    const char *name;
    bool (*finds)(int dir, const char *path);
    bool at;
} calls[] = {{"openat", at_openat, true},
             {"fstatat", at_fstatat, true},
             {"statx", at_statx, true},
             {"faccessat", at_faccessat, true},
             {"readlinkat", at_readlinkat, true},
             {"scandirat", at_scandirat, true},
             {"fdopendir", at_fdopendir, true},
             {"open", by_open, false},
             {"fopen, freopen", by_fopen, false},
             {"stat, lstat", by_stat, false},
             {"statfs", by_statfs, false},
             {"access", by_access, false},
             {"readlink", by_readlink, false},
             {"realpath", by_realpath, false},
             {"opendir", by_opendir, false},
             {"scandir", by_scandir, false},
             {"glob", by_glob, false},
             {"ftw", by_ftw, false},
             {"fts", by_fts, false},
             {"getxattr, inotify", by_others, false}};

/* ---- spellings ---- */

#define IB "/sys/class/infiniband"

static const struct spelling {
    const char *base, *path;
} spellings[] = {{"/", IB},
                 {"/", IB "/"},
                 {"/", "//sys/class/infiniband"},
                 {"/", "/sys//class/infiniband"},
                 {"/", "/sys/./class/infiniband"},
                 {"/", "/sys/class//infiniband/."},
                 {"/", "/./sys/../sys/class/infiniband"},
                 {"/", "/sys/class/net/../infiniband"},
                 {"/", IB "/../infiniband"},
                 {"/", IB "/mlx5_0/.."},
                 {"/", IB "/../net/../infiniband"},
                 {"/", "/proc/self/root/sys/class/infiniband"},
                 {"/", "sys/class/infiniband"},
                 {"/sys", "class/infiniband"},
                 {"/sys/class", "infiniband"},
                 {"/sys/class", "./infiniband"},
                 {"/tmp", "../sys/class/infiniband"},
                 {"/sys/class/net", "../infiniband"},
                 {IB, "."},
                 {IB, "../infiniband"},
                 {IB "/mlx5_0", ".."},
                 {IB "/mlx5_0/ports/1", "../../../../infiniband"}};

static void check_calls(const struct spelling *s)
{
    int here = open(".", O_RDONLY | O_DIRECTORY), dir;

    for (size_t i = 0; i < COUNT(calls); i++) {
        if (chdir(s->base)) check(false, "chdir", "/", s->base);
        check(calls[i].finds(AT_FDCWD, s->path), calls[i].name, s->base, s->path);
        dir = open(s->base, O_RDONLY | O_DIRECTORY);
        if (fchdir(here)) check(false, "fchdir", s->base, "back");
        if (calls[i].at) check(calls[i].finds(dir, s->path), calls[i].name, "an open folder", s->path);
        if (fchdir(dir)) check(false, "fchdir", "/", s->base);
        check(calls[i].finds(AT_FDCWD, s->path), calls[i].name, "fchdir", s->path);
        if (fchdir(here)) check(false, "fchdir", s->base, "back");
        close(dir);
    }
    close(here);
}

/* The folders beside the NIC's are the system's. */
static void check_ways_out(void)
{
    static const char *const from[] = {IB, "/sys/class/infiniband_verbs", IB "/mlx5_0/device/net/lo"};
    static const char *const to[] = {"../net/lo/ifindex", "../net/lo/ifindex", "ifindex"};
    struct stat own, same;

    check(!stat("/sys/class/net/lo/ifindex", &own), "stat", "/", "/sys/class/net/lo/ifindex");
    for (size_t i = 0; i < COUNT(from); i++) {
        int dir = open(from[i], O_RDONLY | O_DIRECTORY);

        check(!fstatat(dir, to[i], &same, 0) && same.st_ino == own.st_ino, "fstatat", from[i], to[i]);
        check(!chdir(from[i]) && !stat(to[i], &same) && same.st_ino == own.st_ino, "stat", from[i], to[i]);
        close(dir);
    }
    check(!stat(IB "/../net/lo/ifindex", &same) && same.st_ino == own.st_ino, "stat", "/", IB "/../net/lo");
    check(!chdir(IB "/..") && !stat("net/lo/ifindex", &same) && same.st_ino == own.st_ino, "chdir", IB, "..");
}

static void check_devices(void)
{
    static const struct spelling names[] = {
        {"/", "/dev//infiniband/uverbs0"}, {"/", "/dev/./infiniband/./uverbs0"},
        {"/", "dev/infiniband/uverbs0"},   {"/dev", "infiniband/rdma_cm"},
        {"/dev/infiniband", "uverbs0"},    {"/dev/infiniband", "../infiniband//rdma_cm"}};
    struct stat st;

    for (size_t i = 0; i < COUNT(names); i++) {
        int dir = open(names[i].base, O_RDONLY | O_DIRECTORY), fd;

        check(!chdir(names[i].base) && !stat(names[i].path, &st) && S_ISCHR(st.st_mode), "stat",
              names[i].base, names[i].path);
        check(!fstatat(dir, names[i].path, &st, 0) && S_ISCHR(st.st_mode), "fstatat", names[i].base,
              names[i].path);
        fd = open(names[i].path, O_RDWR | O_CLOEXEC);
        check(fd >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode), "open", names[i].base, names[i].path);
        close(fd);
        close(dir);
    }
    check(stat("/dev/infiniband/uverbs0/", &st) && errno == ENOTDIR, "stat", "/", "a device as a folder");
}

static void check_names(void)
{
    char name[PATH_MAX], *other;

    check(!chdir(IB) && getcwd(name, sizeof(name)) && !strcmp(name, IB), "getcwd", IB, ".");
    other = get_current_dir_name();
    check(other && !strcmp(other, IB), "get_current_dir_name", IB, ".");
    free(other);
    check(realpath(".", name) && !strcmp(name, IB), "realpath", IB, ".");
    check(!chdir("/dev/infiniband") && getcwd(name, sizeof(name)) && !strcmp(name, "/dev/infiniband"),
          "getcwd", "/dev/infiniband", ".");
    check(!chdir("..") && getcwd(name, sizeof(name)) && !strcmp(name, "/dev"), "chdir", "/dev/infiniband",
          "..");
}

int main(void)
{
    for (size_t i = 0; i < COUNT(spellings); i++) check_calls(&spellings[i]);
    check_ways_out();
    check_devices();
    check_names();
    if (!wrong) printf("ok\n");
    return wrong != 0;
}
