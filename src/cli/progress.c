/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on the terminal. */
#include "src/cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SECOND   1000000000ull
#define EVERY_NS (SECOND / 10)
#define BAR_MAX  40u /* columns of a bar at most: a longer one says no more */

static uint64_t progress_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static unsigned columns(void)
{
    struct winsize size;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

static bool is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void gw_progress_begin(struct gw_progress *p, const char *what, uint64_t total)
{
    *p = (struct gw_progress){.what = what, .total = total, .on = is_terminal()};
    p->began_ns = p->shown_ns = p->on ? progress_now() : 0;
}

static void progress_left(double seconds, char *to, size_t room)
{
    if (seconds < 0 || seconds > 359999) /* not known yet, or too long to be meant */
        snprintf(to, room, "-:--");
    else if (seconds < 3600)
        snprintf(to, room, "%u:%02u", (unsigned)seconds / 60, (unsigned)seconds % 60);
    else
        snprintf(to, room, "%u:%02u:%02u", (unsigned)seconds / 3600, (unsigned)seconds / 60 % 60,
                 (unsigned)seconds % 60);
}

/* The numbers: "57/216  8.9/s  0:18 left". */
static int progress_numbers(const struct gw_progress *p, uint64_t done, uint64_t now_ns, char *to,
                            size_t room)
{
    double seconds = now_ns > p->began_ns ? (double)(now_ns - p->began_ns) / SECOND : 0;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    char rest[32];
    if (!p->total) return snprintf(to, room, "%llu  %.*f/s", (unsigned long long)done, rate < 100, rate);
    progress_left(rate > 0 ? (double)(p->total - done) / rate : -1, rest, sizeof(rest));
    return snprintf(to, room, "%llu/%llu  %.*f/s  %s left", (unsigned long long)done,
                    (unsigned long long)p->total, rate < 100, rate, rest);
}

size_t gw_progress_line(const struct gw_progress *p, uint64_t done, uint64_t now_ns, unsigned columns_there,
                        char *to, size_t room)
{
    char tail[128], bar[BAR_MAX + 1] = "";
    if (!room) return 0;
    if (p->total && done > p->total) done = p->total;
    int tail_len = progress_numbers(p, done, now_ns, tail, sizeof(tail));
    int free_columns = (int)columns_there - (int)strlen(p->what) - tail_len - 6; /* "  [" "]  " */
    unsigned cells = free_columns > (int)BAR_MAX ? BAR_MAX : free_columns > 0 ? (unsigned)free_columns : 0;
    if (p->total && cells >= 4) {
        unsigned full = (unsigned)((double)done / (double)p->total * cells);
        memset(bar, '#', full);
        memset(bar + full, '.', cells - full);
        bar[cells] = 0;
        snprintf(to, room, "%s  [%s]  %s", p->what, bar, tail);
    } else {
        snprintf(to, room, "%s  %s", p->what, tail);
    }
    if (columns_there < room) to[columns_there] = 0;
    return strlen(to);
}

void gw_progress_at(struct gw_progress *p, uint64_t done)
{
    uint64_t t;
    if (!p->on || (t = progress_now()) - p->shown_ns < EVERY_NS) return;
    char line[256];
    p->shown_ns = t;
    /* One column stays free: a full line would make some terminals go to the next. */
    gw_progress_line(p, done, t, columns() - 1, line, sizeof(line));
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

void gw_progress_end(struct gw_progress *p)
{
    if (p->on && p->shown_ns != p->began_ns) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->on = 0;
}
