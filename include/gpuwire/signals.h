/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h: a program that ends in order when a signal comes.
 *
 *     gw_catch_signals();
 *     … start …
 *     while (!gw_interrupted()) { … }
 *     … stop …
 *     return gw_exit_code(failed);
 *
 * Host only; any thread. The state is one for the whole process.
 */
#ifndef GPUWIRE_SIGNALS_H
#define GPUWIRE_SIGNALS_H

#include <stdbool.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts SIGINT, SIGTERM and, unless nohup has it ignored, SIGHUP instead of dying of them. So a program can
 * clean up. A second signal ends it at once. SIGPIPE is ignored. Call it once, before other threads start. */
GW_API void gw_catch_signals(void);

/* Returns 1 once a signal has come, else 0. */
GW_API int gw_interrupted(void);

/* Returns an eventfd that is readable once a signal has come; -1 before gw_catch_signals. */
GW_API int gw_interrupt_fd(void);

/* Returns the exit code of a command that a signal may have cut short: 130 after a signal, else 1 if it
 * failed, else 0. */
GW_API int gw_exit_code(bool failed);

#ifdef __cplusplus
}
#endif
#endif
