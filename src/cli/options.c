/* SPDX-License-Identifier: Apache-2.0 */
/* What commands of the tool share besides reading options: failures, files to write, SIGHUP, the models. */
#include "src/cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/beside.h"

int gw_option_writable(const char *option, const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        close(fd);
        unlink(path);
        return 0;
    }
    if (errno == EEXIST)
        errno = stat(path, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    return errno ? gw_error_errno(-errno, "%s cannot be written (%s says where)", path, option) : 0;
}

int gw_failed(const char *command)
{
    return gw_fail(command, "%s", gw_last_error());
}

static int hangup_fd = -1;

static void on_hangup(int number)
{
    uint64_t one = 1;
    int saved = errno;
    (void)number;
    if (write(hangup_fd, &one, sizeof(one)) < 0) { /* it is readable already */
    }
    errno = saved;
}

int gw_catch_hangup(void)
{
    struct sigaction action = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    hangup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hangup_fd < 0) return gw_error_errno(-errno, "cannot make an eventfd");
    sigaction(SIGHUP, &action, NULL);
    return hangup_fd;
}

const char *gw_default_models(void)
{
    static const char *const places[] = {"..", "../share/gpuwire", "../.."};
    static char found[PATH_MAX];
    char path[PATH_MAX];

    if (gw_beside(places, sizeof(places) / sizeof(places[0]), "models", R_OK | X_OK, path)) return NULL;
    return realpath(path, found);
}
