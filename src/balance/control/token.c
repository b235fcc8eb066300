/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the API's token at the first start, and reads it at later ones. */
#include "src/balance/control/token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/door/secret.h"

#define TOKEN_BYTES 24u

/* Written beside its place and moved there: a start that is cut short leaves no half token. */
static int write_token(const char *path)
{
    unsigned char random[TOKEN_BYTES];
    char text[2 * TOKEN_BYTES + 2], new_path[PATH_MAX];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) return -EIO;
    for (unsigned i = 0; i < TOKEN_BYTES; i++) sprintf(text + 2 * i, "%02x", random[i]);
    text[2 * TOKEN_BYTES] = '\n';
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    unlink(new_path);
    int fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -errno;
    int err = write(fd, text, 2 * TOKEN_BYTES + 1) == 2 * TOKEN_BYTES + 1 ? 0 : -EIO;
    if (close(fd) && !err) err = -errno;
    if (!err && rename(new_path, path)) err = -errno;
    return err;
}

/* 0: there is one that only its owner can read. -ENOENT: there is none. */
static int look_at_token(const char *path)
{
    struct stat st;
    if (lstat(path, &st)) return errno == ENOENT ? -ENOENT : gw_error_errno(-errno, "%s", path);
    if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077)) return 0;
    return gw_error(
        -EPERM, "%s: it must be a file of this user's that no one else may read; remove it, and start again",
        path);
}

int gw_bal_make_token(const char *run_dir, char **token)
{
    char path[PATH_MAX - 8];
    snprintf(path, sizeof(path), "%s/%s", run_dir, GW_BAL_TOKEN_FILE);
    int err = look_at_token(path);
    if (err == -ENOENT && (err = write_token(path))) gw_error_errno(err, "%s", path);
    return err ? err : gw_secret_take_token(NULL, path, token);
}
