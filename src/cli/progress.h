/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on the terminal: how much is done, how fast, how long it will take. It shows on standard
 * error, and only if that is a terminal; otherwise all of this does nothing. One thread uses it at a time. */
#ifndef GW_CLI_PROGRESS_H
#define GW_CLI_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct gw_progress {
    const char *what; /* the word or two in front */
    uint64_t total;   /* 0: not known; there is a count and a rate then, and no bar */
    uint64_t began_ns, shown_ns;
    int on;
};

/* Shows nothing yet: work that is done in a moment needs no bar. `what` must outlive it. */
void gw_progress_begin(struct gw_progress *p, const char *what, uint64_t total);
/* Says how many of the total are done now. Cheap to call often: it draws ten times a second at most. */
void gw_progress_at(struct gw_progress *p, uint64_t done);
/* Takes the bar off the terminal again. May be called twice. */
void gw_progress_end(struct gw_progress *p);

/* The line itself, at `now_ns`, for a terminal of that width in columns; never wider. Returns its length in
 * bytes. */
size_t gw_progress_line(const struct gw_progress *p, uint64_t done, uint64_t now_ns, unsigned columns,
                        char *to, size_t room);

#endif
