/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External data: weights that lie in other files of the model's folder. The file says which, and is not
 * trusted. A path stays below the folder and goes through no link. It leads to a regular file that holds all
 * the bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/model/import/external.h"

#include "src/model/graph/msg.h"

#define MAX_EXTERNAL ((uint64_t)8 << 30) /* bytes of one model */

static int external_fail(const struct gwm_msg *msg, const Onnx__TensorProto *t, int code, const char *what)
{
    return gwm_fail(msg, code, "tensor '%.60s': external data: %s", t->name ? t->name : "", what);
}

static bool external_number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

int gwm_external_place(const Onnx__TensorProto *t, const struct gwm_msg *msg, struct gwm_place *p)
{
    bool ok = true;

    *p = (struct gwm_place){0};
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value) continue;
        if (!strcmp(key, "location")) p->file = value;
        if (!strcmp(key, "offset")) ok = ok && external_number(value, &p->offset);
        if (!strcmp(key, "length")) ok = ok && (p->has_length = external_number(value, &p->length));
    }
    return ok && p->file
               ? 0
               : external_fail(msg, t, -EBADMSG, "location, offset or length is missing or no number");
}

/* Opens a path below `dir`, name by name, so that neither ".." nor a link leads out; a negative errno. */
static int open_below(int dir, const char *path)
{
    char name[NAME_MAX + 1];
    int at = dup(dir), next = at < 0 ? -errno : -ENOENT;

    while (at >= 0) {
        size_t n = strcspn(path, "/");
        bool last = !path[n];
        next = -EINVAL;
        if (!n || n > NAME_MAX) break;
        memcpy(name, path, n);
        name[n] = '\0';
        if (!strcmp(name, "..")) break;
        next = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY));
        if (next < 0) next = -errno;
        if (last || next < 0) break;
        close(at);
        at = next;
        path += n + 1;
    }
    if (at >= 0) close(at);
    return next;
}

static int read_range(int fd, char *to, uint64_t offset, size_t len)
{
    while (len) {
        ssize_t n = pread(fd, to, len, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n ? -errno : -EBADMSG;
        to += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int external_read_tensor(struct gwm_source *s, int fd, struct gwm_place *p, Onnx__TensorProto *t,
                                const struct gwm_msg *msg)
{
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return external_fail(msg, t, -EINVAL, "not a regular file");
    uint64_t size = (uint64_t)st.st_size;
    if (p->offset > size || (p->has_length && p->length > size - p->offset))
        return external_fail(msg, t, -EBADMSG, "the file ends before the tensor does");
    if (!p->has_length) p->length = size - p->offset;
    if (p->length > MAX_EXTERNAL - (s->len < MAX_EXTERNAL ? s->len : MAX_EXTERNAL))
        return external_fail(msg, t, -EFBIG, "more than 8 GiB");
    char *data = malloc(p->length + 1);
    if (!data) return external_fail(msg, t, -ENOMEM, "out of memory");
    int err = read_range(fd, data, p->offset, p->length);
    if (err) {
        free(data);
        return external_fail(msg, t, err, strerror(-err));
    }
    s->len += p->length;
    t->raw_data.data = (uint8_t *)data; /* freed with the message */
    t->raw_data.len = p->length;
    t->has_raw_data = 1;
    return 0;
}

int gwm_external_open(int dir, const Onnx__TensorProto *t, const struct gwm_place *p,
                      const struct gwm_msg *msg)
{
    int fd = open_below(dir, p->file);

    if (fd >= 0) return fd;
    return gwm_fail(msg, fd, "tensor '%.60s': external data '%.80s': %s", t->name ? t->name : "", p->file,
                    fd == -EINVAL  ? "the path must stay in the model's folder"
                    : fd == -ELOOP ? "the path goes through a link; put the file itself into the folder"
                                   : strerror(-fd));
}

int gwm_external(struct gwm_source *s, int dir, const struct gwm_msg *msg)
{
    Onnx__GraphProto *g = s->model->graph;
    int err = 0;

    for (size_t i = 0; i < g->n_initializer && !err; i++) {
        Onnx__TensorProto *t = g->initializer[i];
        struct gwm_place p;
        if (t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL || t->has_raw_data) continue;
        err = gwm_external_place(t, msg, &p);
        if (err) break;
        int fd = gwm_external_open(dir, t, &p, msg);
        if (fd < 0) return fd;
        err = external_read_tensor(s, fd, &p, t, msg);
        close(fd);
    }
    return err;
}
