/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the server's lines, as text or for the journal. */
#include "src/door/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/sync.h>

#include "src/exec/c_locale.h"

#define LINE 1200

static const struct {
    const char *name;
    int priority; /* as syslog numbers them */
} levels[] = {
    [GW_LOG_ERROR] = {"error", 3},
    [GW_LOG_WARNING] = {"warning", 4},
    [GW_LOG_INFO] = {"info", 6},
    [GW_LOG_DEBUG] = {"debug", 7},
};

static uint32_t most = GW_LOG_INFO; /* atomic; it stands alone */

static const char *program = "gpuwire serve";

void gw_log_name(const char *name)
{
    program = name;
}

void gw_log_set(enum gw_log_level level)
{
    gw_st_relaxed_u32(&most, level);
}

bool gw_log_says(enum gw_log_level level)
{
    return level <= gw_ld_relaxed_u32(&most);
}

int gw_log_parse(const char *name)
{
    for (int i = 0; i <= GW_LOG_DEBUG; i++)
        if (!strcmp(name, levels[i].name)) return i;
    return -1;
}

/* systemd says which file its journal is; standard error may be another one by now. */
static bool to_journal(void)
{
    const char *said = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;
    return said && sscanf(said, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
           st.st_dev == dev && st.st_ino == ino;
}

size_t gw_log_format(char *to, size_t size, enum gw_log_level level, int journal, const char *text)
{
    struct timespec now;
    struct tm tm;
    char when[32];
    int n;
    if (journal) {
        n = snprintf(to, size, "<%d>%s", levels[level].priority, text);
    } else {
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &tm);
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
        n = snprintf(to, size, "%s.%03ldZ %s: %s: %s", when, now.tv_nsec / 1000000, program,
                     levels[level].name, text);
    }
    size_t length = n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)to[i] < ' ' || to[i] == 0x7f) to[i] = '?';
    return length;
}

void gw_log(enum gw_log_level level, const char *format, ...)
{
    char text[LINE - 100], line[LINE];
    va_list args;
    if (!gw_log_says(level)) return;
    va_start(args, format);
    locale_t before = gw_c_locale_enter();
    vsnprintf(text, sizeof(text), format, args);
    gw_c_locale_leave(before);
    va_end(args);
    size_t n = gw_log_format(line, sizeof(line) - 1, level, to_journal(), text);
    line[n++] = '\n';
    /* In one piece, so that lines of several threads stay whole. There is no one to tell when it fails. */
    if (write(STDERR_FILENO, line, n) < 0) return;
}
