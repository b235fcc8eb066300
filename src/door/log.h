/* SPDX-License-Identifier: Apache-2.0 */
/* The server writes its own lines to standard error, each of a level. Any thread may call all of it. */
#ifndef GW_DOOR_LOG_H
#define GW_DOOR_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum gw_log_level {
    GW_LOG_ERROR,   /* something that the server was to do has failed */
    GW_LOG_WARNING, /* an operator should look at it; the server goes on */
    GW_LOG_INFO,    /* what the operator did has happened: models come and go, the server ends */
    GW_LOG_DEBUG    /* what single clients do */
};

/* Lines of a higher level than this are left out; GW_LOG_INFO at first. */
void gw_log_set(enum gw_log_level most);
/* Is anything of the level said? For callers whose text takes work. */
bool gw_log_says(enum gw_log_level level);
/* The level of that name: error, warning, info or debug. -1: there is none. */
int gw_log_parse(const char *name);

/* Which program the lines name, before other threads run; "gpuwire serve" at first. */
void gw_log_name(const char *name);

/* One line: "TIME PROGRAM: LEVEL: TEXT". For systemd's journal, which has the time and the level of its
 * own: "<N>TEXT". Bytes that could steer a terminal become question marks. */
void gw_log(enum gw_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes what gw_log would, without the line's end: for tests. Returns its length. */
size_t gw_log_format(char *to, size_t size, enum gw_log_level level, int journal, const char *text);

#endif
