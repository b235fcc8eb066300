/* SPDX-License-Identifier: Apache-2.0 */
/* Claims the control of a data plane, or an interface, so that a second process is refused. */
#include "src/balance/control/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/error.h>

/* The file below run_dir that names the process in control. It stays: one that was removed could be locked by
 * two. */
#define LOCK_FILE "control.lock"

int gw_bal_make_run_dir(const char *run_dir)
{
    struct stat st;
    if (mkdir(run_dir, 0700) && errno != EEXIST)
        return gw_error(-errno, "run_dir %s: %s; name another in global_defs, or run as root", run_dir,
                        strerror(errno));
    if (stat(run_dir, &st)) return gw_error_errno(-errno, "run_dir %s", run_dir);
    /* Someone else's folder may get another data plane, lock or token in the place of ours. */
    if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & 022)
        return gw_error(-EACCES,
                        "run_dir %s: it must be a folder of this user's that no one else may write to; name "
                        "another in global_defs",
                        run_dir);
    return 0;
}

int gw_bal_claim_control(const char *run_dir)
{
    char path[4096];
    int err = gw_bal_make_run_dir(run_dir);
    if (err) return err;
    snprintf(path, sizeof(path), "%s/%s", run_dir, LOCK_FILE);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EACCES)
        return gw_error(-EACCES,
                        "run_dir %s is another user's: run as root, or name another run_dir in global_defs",
                        run_dir);
    if (fd < 0) return gw_error_errno(-errno, "%s", path);
    if (!flock(fd, LOCK_EX | LOCK_NB)) return fd;
    err = errno == EWOULDBLOCK
              ? gw_error(-EBUSY,
                         "run_dir %s: another `gpuwire balance` is in control there; end it, or name another "
                         "run_dir in global_defs",
                         run_dir)
              : gw_error_errno(-errno, "%s", path);
    close(fd);
    return err;
}

/* ---- interfaces ---- */

/* In the abstract namespace of UNIX sockets, which each network namespace has for itself, as it has its
 * interfaces. */
static socklen_t claim_address_of(const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "gpuwire-balance:%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Anybody may take a name there. The process that has it. 0: none that could forward packets in our place. */
static pid_t owner_of(const struct sockaddr_un *address, socklen_t length)
{
    struct ucred who = {0};
    socklen_t size = sizeof(who);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int known = fd >= 0 && !connect(fd, (const struct sockaddr *)address, length) &&
                !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    if (fd >= 0) close(fd);
    return known && (who.uid == 0 || who.uid == geteuid()) ? who.pid : 0;
}

int gw_bal_claim_interface(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = claim_address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return gw_error_errno(-errno, "socket");
    if (!bind(fd, (struct sockaddr *)&address, length) && !listen(fd, 1)) return fd;
    int err = -errno;
    close(fd);
    if (err != -EADDRINUSE) return gw_error_errno(err, "interface %s", name);
    pid_t owner = owner_of(&address, length);
    if (!owner) return -1;
    return gw_error(-EBUSY,
                    "interface %s: another `gpuwire balance`, process %d, forwards its packets; end that one "
                    "first",
                    name, (int)owner);
}
