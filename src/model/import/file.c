/* SPDX-License-Identifier: Apache-2.0 */
/* Files of models: read whole, and the folder that they lie in. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/model/import/file.h"

#include "src/model/graph/msg.h"

/* The whole file in memory; its size, or an error. */
static ssize_t read_file(int fd, const struct gwm_msg *msg, void **bytes)
{
    struct stat st;
    size_t have = 0;
    ssize_t n;

    if (fstat(fd, &st)) return gwm_fail(msg, -errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return gwm_fail(msg, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, "not a regular file");
    if ((uint64_t)st.st_size > GWM_MAX_FILE) return gwm_fail(msg, -EFBIG, "larger than 1 GiB");
    char *p = malloc((size_t)st.st_size + 1);
    if (!p) return gwm_fail(msg, -ENOMEM, "out of memory");
    while (have < (size_t)st.st_size && (n = read(fd, p + have, (size_t)st.st_size - have)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            int code = -errno;
            free(p);
            return gwm_fail(msg, code, "%s", strerror(-code));
        }
        have += (size_t)n;
    }
    *bytes = p;
    return (ssize_t)have;
}

int gwm_open_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int dir = folder ? open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY) : -1;

    free(folder);
    return dir;
}

ssize_t gwm_read_file(const char *path, const struct gwm_msg *msg, void **bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) return gwm_fail(msg, -errno, "%s", strerror(errno));
    ssize_t len = read_file(fd, msg, bytes);
    close(fd);
    return len;
}
