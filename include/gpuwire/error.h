/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h: the reason of the last failure, in words.
 *
 * Functions of the library return a negative errno value. Where the number does not tell the reason, they
 * also leave one line of text, kept per thread: what failed, on what, and what to do about it. A program
 * prints
 *
 *     fprintf(stderr, "prog: %s\n", gw_last_error());
 *
 * Host only; any thread.
 */
#ifndef GPUWIRE_ERROR_H
#define GPUWIRE_ERROR_H

/* Marks the functions that libgpuwire exports; everything else in it is hidden. */
#define GW_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* This thread's last failure: one line without a newline, never NULL, "no error" when nothing failed yet. It
 * stays valid, and unchanged by successful calls, until the next failing call of this thread. */
GW_API const char *gw_last_error(void);

/*
 * Records why the calling function fails, and returns err. So a module can write
 *
 *     return gw_error(-EINVAL, "%s: not a number; give a port from 1 to 65535", arg);
 *
 * `err` is a negative errno value. Newlines become spaces; text beyond 511 bytes is cut. */
GW_API int gw_error(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As gw_error, with ": " and strerror(-err) appended. */
GW_API int gw_error_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
