/* SPDX-License-Identifier: Apache-2.0 */
/* Makes files, folders and links below an open folder. */
#include "softnic/sysfs/put.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 256

/* Makes the folders that a path names before its last slash: from below, because most are there already. */
static int put_parents(int top, const char *path)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');

    if (!slash || slash == path) return 0;
    size_t len = (size_t)(slash - path);
    if (len >= sizeof(parent)) return -ENAMETOOLONG;
    memcpy(parent, path, len);
    parent[len] = 0;
    if (!mkdirat(top, parent, 0700) || errno == EEXIST) return 0;
    if (errno != ENOENT) return -errno;
    int err = put_parents(top, parent);
    return err ? err : mkdirat(top, parent, 0700) && errno != EEXIST ? -errno : 0;
}

static int sysfs_write_file(int top, const char *path, const char *text)
{
    int fd = openat(top, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    ssize_t n = (ssize_t)strlen(text), written = write(fd, text, (size_t)n);
    int err = written == n ? 0 : written < 0 ? -errno : -ENOSPC;
    close(fd);
    return err;
}

int sn_put(int top, const char *path, const char *text)
{
    int err = put_parents(top, path);
    return err ? err : sysfs_write_file(top, path, text);
}

int sn_put_anew(int top, const char *path, const char *text)
{
    char working[PATH_BYTES];

    if ((size_t)snprintf(working, sizeof(working), "%s~", path) >= sizeof(working)) return -ENAMETOOLONG;
    int err = sysfs_write_file(top, working, text);
    if (!err && renameat(top, working, top, path)) err = -errno;
    if (err) unlinkat(top, working, 0);
    return err;
}

int sn_put_folder(int top, const char *path)
{
    int err = put_parents(top, path);
    if (err) return err;
    return mkdirat(top, path, 0700) && errno != EEXIST ? -errno : 0;
}

int sn_put_link(int top, const char *path, const char *target)
{
    int err = put_parents(top, path);
    if (err) return err;
    return symlinkat(target, top, path) && errno != EEXIST ? -errno : 0;
}
