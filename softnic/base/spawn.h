/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.h: threads in a program that is not ours. */
#ifndef SOFTNIC_BASE_SPAWN_H
#define SOFTNIC_BASE_SPAWN_H

#include <pthread.h>
#include <stddef.h>

/*
 * Starts a thread that takes none of the program's signals, but for those that the processor raises. A thread
 * that guards an access (mem/guard.h) needs them delivered. That includes SIGPIPE: a write to a pipe without
 * a reader fails, and ends nothing. stack: bytes, or more where the program's thread-local variables, which
 * lie there too, need more; 0: as usual. Returns 0 or a negative errno.
 */
int sn_spawn(pthread_t *id, size_t stack, void *(*run)(void *), void *arg);

#endif
