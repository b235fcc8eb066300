/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/mem/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

/* initial-exec: the handler reads this in threads that never touched it, where lazy allocation would not be
 * safe. */
static __thread sigjmp_buf *volatile armed __attribute__((tls_model("initial-exec")));

/* Keeps the compiler from moving an access out of its guard. */
#define BARRIER __asm__ volatile("" ::: "memory")

/* The body of a function that makes one access: it returns 0, or -EFAULT when there is no memory. A macro, because the
 * frame that sigsetjmp was called in must be there when the handler jumps. */
#define GUARDED(access)                                                                                      \
    do {                                                                                                     \
        sigjmp_buf here;                                                                                     \
                                                                                                             \
        if (sigsetjmp(here, 0)) return -EFAULT;                                                              \
        armed = &here;                                                                                       \
        BARRIER;                                                                                             \
        access;                                                                                              \
        BARRIER;                                                                                             \
        armed = NULL;                                                                                        \
        return 0;                                                                                            \
    } while (0)

static const int signals[] = {SIGSEGV, SIGBUS};
enum { SIGNALS = 2 };
static struct sigaction before[SIGNALS]; /* read by the handler: changed only while nobody else can install */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

/* What would have happened without us. For the default action: give the signal back to it and let the fault
 * repeat. */
static void pass_on(int index, int sig, siginfo_t *info, void *ctx)
{
    struct sigaction old = before[index];

    if (old.sa_flags & SA_SIGINFO) {
        old.sa_sigaction(sig, info, ctx);
    } else if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
        /* A fault cannot be ignored: the kernel ends the process too. A signal that was sent does not repeat
         * itself. */
        signal(sig, SIG_DFL);
        if (info->si_code <= 0) raise(sig);
    } else {
        old.sa_handler(sig);
    }
}

static void on_fault(int sig, siginfo_t *info, void *ctx)
{
    sigjmp_buf *to = armed;

    /* si_code > 0: the kernel says so, it is no kill(). */
    if (to && info->si_code > 0) {
        armed = NULL;
        /* The jump leaves the mask as it is in here: everything is blocked where ThreadSanitizer's handler
         * stands before this one, and a second fault would end the process. So back to what it was. */
        pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)ctx)->uc_sigmask, NULL);
        siglongjmp(*to, 1);
    }
    pass_on(sig == SIGSEGV ? 0 : 1, sig, info, ctx);
}

static int install(int index)
{
    struct sigaction now, ours;

    if (sigaction(signals[index], NULL, &now)) return -errno;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) return 0;
    memset(&ours, 0, sizeof(ours));
    ours.sa_sigaction = on_fault;
    sigemptyset(&ours.sa_mask);
    /* NODEFER: a handler of the program's, which a fault is passed on to, may jump out of itself.
     * ONSTACK: the program's own handling of stack overflow keeps working. */
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    before[index] = now;
    return sigaction(signals[index], &ours, NULL) ? -errno : 0;
}

int sn_guard_install(void)
{
    int err;

    pthread_mutex_lock(&install_lock);
    err = install(0);
    if (!err) err = install(1);
    pthread_mutex_unlock(&install_lock);
    return err;
}

/* The access itself is a call in each case: nothing that it changes lives in a register across the jump. */
int sn_guard_call(void (*fn)(void *arg), void *arg)
{
    GUARDED(fn(arg));
}

/*
 * A NIC's access to the program's memory is ordered by records and completions that the program's own
 * libraries read, which ThreadSanitizer does not see: for it, these bytes move by other means than loads and
 * stores.
 */
static void dma_copy(void *dst, const void *src, size_t n)
{
#ifdef __SANITIZE_THREAD__
    /* As memmove: backwards, if the destination begins within the source. */
    if ((uintptr_t)dst - (uintptr_t)src < n) {
        dst = (uint8_t *)dst + n - 1;
        src = (const uint8_t *)src + n - 1;
        __asm__ volatile("std; rep movsb; cld" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
    } else {
        __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
    }
#else
    memmove(dst, src, n); /* a program may copy within one buffer */
#endif
}

int sn_guard_copy(void *dst, const void *src, size_t n)
{
    GUARDED(dma_copy(dst, src, n));
}

int sn_guard_load32(const uint32_t *from, uint32_t *value)
{
    /* Acquire: what the program wrote before it published this word is seen by reads that follow. */
    GUARDED(*value = __atomic_load_n(from, __ATOMIC_ACQUIRE));
}

int sn_guard_store32(uint32_t *to, uint32_t value)
{
    GUARDED(__atomic_store_n(to, value, __ATOMIC_RELEASE));
}

int sn_guard_store8(uint8_t *to, uint8_t value)
{
    GUARDED(__atomic_store_n(to, value, __ATOMIC_RELEASE));
}
