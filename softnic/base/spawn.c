/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a thread that gets none of the program's signals. */
#include "softnic/base/spawn.h"

#include <errno.h>
#include <signal.h>

int sn_spawn(pthread_t *id, size_t stack, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    pthread_attr_t attr;
    sigset_t all, before;
    int err;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&all, faults[i]);
    pthread_attr_init(&attr);
    if (stack) pthread_attr_setstacksize(&attr, stack);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* inherited */
    err = pthread_create(id, &attr, run, arg);
    if (err == EINVAL) err = pthread_create(id, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -err;
}
