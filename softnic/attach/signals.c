/* SPDX-License-Identifier: Apache-2.0 */
/*
 * These functions have the names of libc's. A library that is preloaded, or that the program is linked to,
 * stands before libc, and is called in its place. One that is loaded later has to patch import tables.
 */
#include "softnic/attach/signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "softnic/attach/got.h"
#include "softnic/mem/handlers.h"

/* Declared here: the headers hide some of them, and say of others that one should not use them. */
sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t __sysv_signal(int sig, sighandler_t handler);

/* libc's own, for the other signals. Looked up before main: in a signal handler it would be too late. */
static struct {
    sighandler_t (*signal)(int, sighandler_t), (*sysv_signal)(int, sighandler_t),
        (*sigset)(int, sighandler_t);
    int (*sigignore)(int);
} libc;

__attribute__((constructor)) static void signals_find_libc(void)
{
    libc.signal = (sighandler_t(*)(int, sighandler_t))dlsym(RTLD_NEXT, "signal");
    libc.sysv_signal = (sighandler_t(*)(int, sighandler_t))dlsym(RTLD_NEXT, "__sysv_signal");
    libc.sigset = (sighandler_t(*)(int, sighandler_t))dlsym(RTLD_NEXT, "sigset");
    libc.sigignore = (int (*)(int))dlsym(RTLD_NEXT, "sigignore");
}

static bool is_fault(int sig)
{
    return sig == SIGSEGV || sig == SIGBUS;
}

/* The sigaction() that the older calls make of a handler and flags. */
static sighandler_t set_handler(int sig, sighandler_t handler, int flags, bool itself_masked)
{
    struct sigaction next, old;

    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    memset(&next, 0, sizeof(next));
    next.sa_handler = handler;
    next.sa_flags = flags;
    sigemptyset(&next.sa_mask);
    if (itself_masked) sigaddset(&next.sa_mask, sig);
    return sn_handlers_action(sig, &next, &old) ? SIG_ERR : old.sa_handler;
}

static int hook_sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
    return sn_handlers_action(sig, action, old);
}

static sighandler_t hook_signal(int sig, sighandler_t handler)
{
    if (!is_fault(sig)) return libc.signal(sig, handler);
    return set_handler(sig, handler, SA_RESTART, true);
}

static sighandler_t hook_sysv_signal(int sig, sighandler_t handler)
{
    if (!is_fault(sig)) return libc.sysv_signal(sig, handler);
    return set_handler(sig, handler, (int)SA_RESETHAND | SA_NODEFER, false);
}

static int hook_sigignore(int sig)
{
    if (!is_fault(sig)) return libc.sigignore(sig);
    return set_handler(sig, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

/* Sets the handler and unblocks the signal; or only blocks it. */
static sighandler_t hook_sigset(int sig, sighandler_t handler)
{
    struct sigaction old;
    sigset_t this_one, before;

    if (!is_fault(sig)) return libc.sigset(sig, handler);
    if (sn_handlers_action(sig, NULL, &old)) return SIG_ERR;
    if (handler != SIG_HOLD && set_handler(sig, handler, 0, false) == SIG_ERR) return SIG_ERR;
    sigemptyset(&this_one);
    sigaddset(&this_one, sig);
    pthread_sigmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &this_one, &before);
    return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

/* The names: functions of their own would be libc's in a library that is loaded late. */
#define NAMED(name, hook) __attribute__((visibility("default"), alias(#hook))) __typeof__(hook) name
NAMED(sigaction, hook_sigaction);
NAMED(signal, hook_signal);
NAMED(bsd_signal, hook_signal);
NAMED(ssignal, hook_signal);
NAMED(sysv_signal, hook_sysv_signal);
NAMED(__sysv_signal, hook_sysv_signal);
NAMED(sigignore, hook_sigignore);
NAMED(sigset, hook_sigset);

static const struct sn_hook hooks[] = {
    {"sigaction", hook_sigaction}, {"signal", hook_signal},           {"bsd_signal", hook_signal},
    {"ssignal", hook_signal},      {"sysv_signal", hook_sysv_signal}, {"__sysv_signal", hook_sysv_signal},
    {"sigignore", hook_sigignore}, {"sigset", hook_sigset},
};

void sn_signals_apply(void)
{
    if (dlsym(RTLD_DEFAULT, "sigaction") == (void *)hook_sigaction) return;
    sn_got_patch_all_but(sn_got_system, hooks, sizeof(hooks) / sizeof(hooks[0]));
}
