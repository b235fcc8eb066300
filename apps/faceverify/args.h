/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share: option values, with one clear line for each mistake, exit codes, signals. */
#ifndef FACE_ARGS_H
#define FACE_ARGS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { FACE_EXIT_OK = 0, FACE_EXIT_FAILURE = 1, FACE_EXIT_USAGE = 2, FACE_EXIT_INTERRUPTED = 130 };

/* Says what is wrong with the call and how to learn more; returns FACE_EXIT_USAGE. */
int face_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For getopt's '?' and ':' (with opterr = 0 and an optstring that starts with ':'); returns FACE_EXIT_USAGE.
 */
int face_option_wrong(const char *command, char **argv, int option);
/* A whole number from min to max: 0, or FACE_EXIT_USAGE after saying what was expected. */
int face_option_number(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *out);
/* The same with a number that may have a fraction. */
int face_option_real(const char *command, const char *option, const char *text, double min, double max,
                     double *out);
/* Prints "gpuwire app faceverify COMMAND: …"; returns FACE_EXIT_FAILURE. */
int face_fail(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* HOST:PORT, [HOST]:PORT, HOST (then the port is `port`) or, where HOST may be missing (`any`), PORT or :PORT
 * for all addresses. 0, or a negative errno after one line that says what is wrong. */
int face_address(const char *command, const char *text, uint16_t port, bool any, struct sockaddr_storage *out,
                 socklen_t *len);

/* Counts SIGINT, SIGTERM and SIGHUP instead of dying of them. A second signal ends the program at once. */
void face_catch_signals(void);
bool face_interrupted(void);
/* Readable once a signal has come. */
int face_interrupt_fd(void);
/* How a command ends that a signal may have cut short. */
int face_exit_code(bool failed);

#endif
