/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in a file. */
#include "src/fleet/pages/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

void fleet_image_path(const struct gwm_key *key, const char *folder, char *out, size_t size)
{
    snprintf(out, size, "%s/%016" PRIx64 "%016" PRIx64 ".weights", folder, key->a, key->b);
}

int fleet_image_open(const struct gwm_key *key, const char *folder, int *fd)
{
    char path[512];
    struct stat st;

    fleet_image_path(key, folder, path, sizeof(path));
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0) return gw_error(-errno, "%s: %s", path, strerror(errno));
    if (!fstat(*fd, &st) && S_ISREG(st.st_mode) && (size_t)st.st_size == key->bytes) return 0;
    close(*fd);
    return gw_error(-EBADMSG, "%s: not the %zu bytes of weights that were put there", path, key->bytes);
}

int fleet_image_read(int fd, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(fd, (char *)to + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gw_error(-errno, "cannot read weights: %s", strerror(errno));
        if (!n) return gw_error(-EBADMSG, "a file of weights ends early");
        done += (size_t)n;
    }
    return 0;
}

int fleet_image_begin(struct fleet_image_writer *w, const char *folder)
{
    *w = (struct fleet_image_writer){.folder = folder, .key = gwm_key_of(NULL, 0)};
    snprintf(w->path, sizeof(w->path), "%s/.new-XXXXXX", folder);
    w->fd = mkostemp(w->path, O_CLOEXEC);
    return w->fd < 0 ? gw_error(-errno, "%s: cannot keep weights there: %s", folder, strerror(errno)) : 0;
}

int fleet_image_write(struct fleet_image_writer *w, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(w->fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gw_error(-errno, "%s: cannot keep weights there: %s", w->folder, strerror(errno));
        done += (size_t)n;
    }
    gwm_key_more(&w->key, data, bytes);
    return 0;
}

int fleet_image_end(struct fleet_image_writer *w, int err)
{
    char path[512];

    fleet_image_path(&w->key, w->folder, path, sizeof(path));
    if (close(w->fd) && !err)
        err = gw_error(-errno, "%s: cannot keep weights there: %s", w->folder, strerror(errno));
    if (!err && rename(w->path, path)) err = gw_error(-errno, "%s: %s", path, strerror(errno));
    if (err) unlink(w->path);
    return err;
}
