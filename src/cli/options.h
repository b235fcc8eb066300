/* SPDX-License-Identifier: Apache-2.0 */
/* Reading option values, with one clear line for each mistake. */
#ifndef GW_CLI_OPTIONS_H
#define GW_CLI_OPTIONS_H

#include <stdint.h>

enum { GW_EXIT_OK = 0, GW_EXIT_FAILURE = 1, GW_EXIT_USAGE = 2, GW_EXIT_INTERRUPTED = 130 };

/* A whole number from min to max: 0, or GW_EXIT_USAGE after saying what was expected. */
int gw_option_number(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *out);
/* For getopt's '?' and ':' (with opterr = 0 and an optstring that starts with ':'); returns GW_EXIT_USAGE. */
int gw_option_wrong(const char *command, char **argv, int option);
/* Says what is wrong with the call and how to learn more; returns GW_EXIT_USAGE. */
int gw_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Before work begins whose end it is: can a file be written there? None is left, and none changed. 0,
 * or a negative errno with a line that names the option. */
int gw_option_writable(const char *option, const char *path);
/* Says what failed, in gw_last_error()'s words; returns GW_EXIT_FAILURE. */
int gw_failed(const char *command);

/* Counts SIGINT, SIGTERM and, unless nohup has it ignored, SIGHUP instead of dying of them. So a program can
 * clean up. A second signal ends it at once. */
void gw_catch_signals(void);
int gw_interrupted(void);
/* From now on SIGHUP ends nothing, and makes this descriptor, an eventfd, readable. A negative errno: there
 * is none. */
int gw_catch_hangup(void);
/* How a command ends that a signal may have cut short. */
int gw_exit_code(int failed);
/* Readable once a signal has come. */
int gw_interrupt_fd(void);

/* Where the models are by default: beside the program as built, installed or bundled. NULL: nowhere.
 * The text is the function's own. */
const char *gw_default_models(void);

#endif
