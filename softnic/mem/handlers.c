/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the NIC's fault handler before the program's. */
#include "softnic/mem/handlers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

/* glibc's own name: no replacement of sigaction() stands before it, not even ours. */
int __sigaction(int sig, const struct sigaction *action, struct sigaction *old);

enum { WORDS = sizeof(struct sigaction) / sizeof(uint64_t) };
_Static_assert(sizeof(struct sigaction) % sizeof(uint64_t) == 0, "it is copied word by word");

/* One signal. The action that is in force is copy[version % 2]; a change writes the other one first. */
static struct one {
    int sig;
    unsigned version;
    uint64_t copy[2][WORDS];
    /* The action before another one took our place without our knowledge, and may chain to us. Under the
     * lock. */
    struct sigaction beneath;
    bool taken;
} table[2] = {{.sig = SIGSEGV}, {.sig = SIGBUS}};

static const struct sigaction by_default; /* all zero: SIG_DFL */
static sn_fault_taker *taker;
static pid_t installed_by, locked_by; /* atomic; 0: none */

/* The fault that this thread passes on to the program's handler: its context, and our frame. A handler that
 * jumps out of itself leaves them. */
static __thread struct {
    const void *ctx, *frame;
} passing __attribute__((tls_model("initial-exec")));

/* ---- the program's action ------------------------------------------------------------------------------ */

static struct one *handlers_find(int sig)
{
    return sig == SIGSEGV ? &table[0] : sig == SIGBUS ? &table[1] : NULL;
}

/* Takes no lock: it runs in signal handlers, and in a forked child whose parent's thread may have held the
 * lock. */
static struct sigaction handlers_in_force(const struct one *o)
{
    uint64_t words[WORDS];
    struct sigaction action;
    unsigned version;

    do {
        /* Acquire: the words are read after the version that published them. */
        version = __atomic_load_n(&o->version, __ATOMIC_ACQUIRE);
        for (int i = 0; i < WORDS; i++)
            words[i] = __atomic_load_n(&o->copy[version % 2][i], __ATOMIC_RELAXED);
        /* Keeps these loads before the second look: had one seen the next but one change, this would see it
         * too. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&o->version, __ATOMIC_RELAXED) != version);
    memcpy(&action, words, sizeof(action));
    return action;
}

static void handlers_publish(struct one *o, const struct sigaction *action)
{
    uint64_t words[WORDS], *to = o->copy[(o->version + 1) % 2];

    memcpy(words, action, sizeof(words));
    /* Keeps these stores after the last version's: a reader that sees one of them sees that its copy is the
     * old one. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (int i = 0; i < WORDS; i++) __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
    /* Release: who sees the version sees the words. */
    __atomic_store_n(&o->version, o->version + 1, __ATOMIC_RELEASE);
}

/* ---- the lock ------------------------------------------------------------------------------------------ */

/*
 * sigaction() may be called in a signal handler, so no signal may come while the lock is held. A forked child
 * may find the lock held by a thread of its parent, which the child does not have: a holder of another
 * process does not count.
 */
static void handlers_lock(sigset_t *before)
{
    pid_t me = getpid(), holder = 0;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    /* Acquire: what the last holder wrote is seen. */
    while (!__atomic_compare_exchange_n(&locked_by, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (holder != me) continue; /* the next exchange takes it from there */
        holder = 0;
        sched_yield();
    }
}

static void handlers_unlock(const sigset_t *before)
{
    __atomic_store_n(&locked_by, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* A forked child has no NIC, and one by vfork() writes to its parent's memory: they change the system's table
 * alone. */
static bool in_charge(void)
{
    return __atomic_load_n(&installed_by, __ATOMIC_RELAXED) == getpid();
}

/* ---- the system's action ------------------------------------------------------------------------------- */

static void on_fault(int sig, siginfo_t *info, void *ctx);

static bool handlers_is_ours(const struct sigaction *a)
{
    return a->sa_sigaction == on_fault; /* whatever the flags: signal() returns the address alone */
}

static bool has_handler(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

/* Our handler, called with the mask and on the stack of the program's. */
static int put_in_front(const struct one *o, const struct sigaction *action)
{
    struct sigaction ours;

    memset(&ours, 0, sizeof(ours));
    sigemptyset(&ours.sa_mask);
    ours.sa_flags = SA_NODEFER | SA_ONSTACK | SA_RESTART;
    if (has_handler(action)) {
        ours.sa_mask = action->sa_mask;
        ours.sa_flags = action->sa_flags & ~(int)SA_RESETHAND;
    }
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = on_fault;
    return __sigaction(o->sig, &ours, NULL);
}

/* If another handler took our place without our knowledge, it is the program's handler from now on. */
static int keep_in_front(struct one *o)
{
    struct sigaction now;

    GW_ASSERT(__atomic_load_n(&locked_by, __ATOMIC_RELAXED) == getpid());
    if (__sigaction(o->sig, NULL, &now)) return -1;
    if (handlers_is_ours(&now)) return 0;
    o->beneath = handlers_in_force(o);
    o->taken = true;
    handlers_publish(o, &now);
    return put_in_front(o, &now);
}

/* The program may give back what it once saw of ours: it means what was in force then. */
static int handlers_change(struct one *o, const struct sigaction *action)
{
    struct sigaction next = *action;

    GW_ASSERT(__atomic_load_n(&locked_by, __ATOMIC_RELAXED) == getpid());
    if (handlers_is_ours(action)) next = o->taken ? o->beneath : handlers_in_force(o);
    o->taken = false;
    handlers_publish(o, &next);
    return put_in_front(o, &next);
}

static int change_ours(struct one *o, const struct sigaction *action, struct sigaction *old)
{
    sigset_t before;
    int err;

    handlers_lock(&before);
    err = keep_in_front(o);
    *old = handlers_in_force(o);
    if (!err && action) err = handlers_change(o, action);
    handlers_unlock(&before);
    return err;
}

static int change_system(const struct one *o, int sig, const struct sigaction *action, struct sigaction *old)
{
    int err = __sigaction(sig, action, old);

    if (!err && o && old && handlers_is_ours(old))
        *old = handlers_in_force(o); /* a forked child has our handler still */
    return err;
}

int sn_handlers_action(int sig, const struct sigaction *action, struct sigaction *old)
{
    struct one *o = handlers_find(sig);
    struct sigaction next, was;

    if (!o || !in_charge()) return change_system(o, sig, action, old);
    if (action) next = *action; /* faults here if it is nowhere, not under the lock */
    if (change_ours(o, action ? &next : NULL, &was)) return -1;
    if (old) *old = was;
    return 0;
}

int sn_handlers_install(sn_fault_taker *take)
{
    sigset_t before;
    int err;

    handlers_lock(&before);
    __atomic_store_n(&taker, take, __ATOMIC_RELAXED);
    err = keep_in_front(&table[0]) || keep_in_front(&table[1]) ? -errno : 0;
    if (!err) __atomic_store_n(&installed_by, getpid(), __ATOMIC_RELAXED);
    handlers_unlock(&before);
    return err;
}

/* ---- faults -------------------------------------------------------------------------------------------- */

/* Was it raised by an access, which is made again when the handler returns? The others were sent, or report
 * damaged memory that has not been accessed yet. */
static bool repeats(const siginfo_t *info)
{
    return info->si_code > 0 && !(info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* As the kernel: no handler is called twice that is to be called once. */
static struct sigaction take_action(struct one *o)
{
    struct sigaction action = handlers_in_force(o);
    sigset_t before;

    if (!has_handler(&action) || !(action.sa_flags & (int)SA_RESETHAND)) return action;
    if (!in_charge()) {
        __sigaction(o->sig, &by_default, NULL);
        return action;
    }
    handlers_lock(&before);
    action = handlers_in_force(o);
    if (has_handler(&action) && (action.sa_flags & (int)SA_RESETHAND)) handlers_change(o, &by_default);
    handlers_unlock(&before);
    return action;
}

/* The handler before the one that took our place. */
static struct sigaction underneath(struct one *o)
{
    struct sigaction action;
    sigset_t before;

    handlers_lock(&before);
    action = o->taken ? o->beneath : by_default;
    handlers_unlock(&before);
    return action;
}

/* For the default action: gives the signal back to the system and lets the fault repeat. */
static void handlers_pass_on(const struct sigaction *action, int sig, siginfo_t *info, void *ctx)
{
    if (action->sa_flags & SA_SIGINFO) {
        action->sa_sigaction(sig, info, ctx);
    } else if (has_handler(action)) {
        action->sa_handler(sig);
    } else if (action->sa_handler == SIG_DFL || repeats(info)) {
        __sigaction(sig, &by_default, NULL);
        if (!repeats(info)) raise(sig);
    }
}

/*
 * Called by the kernel; or by a program's handler that took our place and chains to us. If we called that
 * handler ourselves for this very fault, the chain has come full circle: then it ends with what was there
 * before that handler.
 */
static void on_fault(int sig, siginfo_t *info, void *ctx)
{
    const void *frame = __builtin_frame_address(0), *outer_ctx = passing.ctx, *outer_frame = passing.frame;
    /* Called through it, we are below it on the same stack. A frame that a jump left lies where this one is.
     */
    bool circle = ctx == outer_ctx && (uintptr_t)frame < (uintptr_t)outer_frame;
    struct one *o = handlers_find(sig);
    struct sigaction action;
    int kept = errno;

    if (repeats(info)) __atomic_load_n(&taker, __ATOMIC_RELAXED)(ctx);
    action = circle ? underneath(o) : take_action(o);
    passing.ctx = ctx;
    passing.frame = frame;
    errno = kept;
    handlers_pass_on(&action, sig, info, ctx);
    passing.ctx = outer_ctx;
    passing.frame = outer_frame;
}
