/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file of NAME = VALUE lines. */
#include "src/cli/serve_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"

enum { MOST = 65536 };

/* Settings point into it. */
static char text[MOST + 1];

static int serve_config_load(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) return gw_error_errno(-errno, "%s", path);
    errno = 0;
    size_t n = fread(text, 1, sizeof(text), file);
    int err = ferror(file) ? -errno : 0;
    fclose(file);
    if (err) return gw_error_errno(err, "%s", path);
    if (n > MOST) return gw_error(-EFBIG, "%s: a file of settings has at most %d bytes", path, MOST);
    if (memchr(text, 0, n)) return gw_error(-EINVAL, "%s: not a text file: it has a byte that is 0", path);
    text[n] = 0;
    return 0;
}

/* Without the blanks around it. */
static char *trimmed(char *s)
{
    while (isspace((unsigned char)*s)) s++;
    size_t n = strlen(s);
    while (n && isspace((unsigned char)s[n - 1])) n--;
    s[n] = 0;
    return s;
}

static void cut_comment(char *line)
{
    for (char *c = line; *c; c++) {
        if (*c != '#' || (c > line && !isspace((unsigned char)c[-1]))) continue;
        *c = 0;
        return;
    }
}

int gw_config_read(const char *command, const char *path,
                   int (*set)(void *context, const struct gw_setting *s), void *context)
{
    unsigned number = 0;
    int wrong = 0;
    char said[4096], *next = text;
    if (serve_config_load(path)) return gw_failed(command);
    while (!wrong && next) {
        char *line = strsep(&next, "\n");
        number++;
        cut_comment(line);
        line = trimmed(line);
        if (!*line) continue;
        char *equals = strchr(line, '=');
        if (!equals) return gw_usage_error(command, "%s:%u: %s: expected NAME = VALUE", path, number, line);
        *equals = 0;
        struct gw_setting s = {trimmed(line), trimmed(equals + 1), said};
        if (!*s.name) return gw_usage_error(command, "%s:%u: expected NAME = VALUE", path, number);
        snprintf(said, sizeof(said), "%s:%u: %s", path, number, s.name);
        wrong = *s.value ? set(context, &s) : gw_usage_error(command, "%s: it wants a value", said);
    }
    return wrong;
}
