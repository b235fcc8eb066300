/* SPDX-License-Identifier: Apache-2.0 */
/* A file of settings: one NAME = VALUE a line; # begins a comment, at a line's start or after a space. */
#ifndef GW_CLI_SERVE_CONFIG_H
#define GW_CLI_SERVE_CONFIG_H

struct gw_setting {
    const char *name, *value; /* neither is empty; both stay valid as long as the process runs */
    const char *said;         /* "FILE:LINE: NAME", for what is wrong with it; valid during the call alone */
};

/* Reads one file of a process. Calls `set` for each line that has a setting, until one is refused: it has
 * said why, and returned an exit code above 0. Returns that code, GW_EXIT_USAGE for a line that is no
 * setting, or GW_EXIT_FAILURE for a file that cannot be read. 0: all are set. `command` begins what is
 * said. */
int gw_config_read(const char *command, const char *path,
                   int (*set)(void *context, const struct gw_setting *s), void *context);

#endif
