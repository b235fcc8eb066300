/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of a model's folder, whole. */
#include "src/generate/text/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpuwire/error.h"

static int file_bytes(int fd, const char *path, struct gw_text *text)
{
    for (;;) {
        char *to = gw_text_room(text, 65536);
        if (!to) return gw_error(-ENOMEM, "%s: no memory to read it", path);
        ssize_t n = read(fd, to, 65536);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gw_error_errno(-errno, "%s", path);
        text->bytes += (size_t)n;
        to[n] = 0;
        if (!n) return 0;
        if (text->bytes > GEN_MAX_FILE)
            return gw_error(-E2BIG, "%s has more than %u bytes", path, GEN_MAX_FILE);
    }
}

int gen_file_read(const char *folder, const char *name, struct gw_text *text)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return gw_error(-ENAMETOOLONG, "%.200s: the path is too long", folder);
    /* A file that is no file (a pipe without a writer) must not hold the caller up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return gw_error_errno(-errno, "%s", path);
    struct stat st;
    int err = fstat(fd, &st) ? gw_error_errno(-errno, "%s", path) : 0;
    if (!err && !S_ISREG(st.st_mode)) err = gw_error(-EINVAL, "%s is no regular file", path);
    if (!err) err = file_bytes(fd, path, text);
    close(fd);
    return err;
}

int gen_file_parse(const char *name, const char *text, size_t bytes, json_t **out)
{
    json_error_t why;
    *out = json_loadb(text, bytes, JSON_ALLOW_NUL, &why);
    if (!*out) return gw_error(-EINVAL, "%s: line %d: %s", name, why.line, why.text);
    if (json_is_object(*out)) return 0;
    json_decref(*out);
    *out = NULL;
    return gw_error(-EINVAL, "%s is not a JSON object", name);
}

int gen_file_json(const char *folder, const char *name, json_t **out)
{
    struct gw_text text = {0};
    *out = NULL;
    int err = gen_file_read(folder, name, &text);
    if (!err) err = gen_file_parse(name, text.at, text.bytes, out);
    free(text.at);
    return err;
}
