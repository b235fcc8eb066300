/* SPDX-License-Identifier: Apache-2.0 */
/* Touches memory so that a fault becomes an error. */
#include "softnic/mem/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "softnic/mem/handlers.h"

/* initial-exec: the handler reads this in threads that never touched it, where lazy allocation would not be
 * safe. */
static __thread sigjmp_buf *volatile armed __attribute__((tls_model("initial-exec")));
static __thread bool faults_come __attribute__((tls_model("initial-exec")));

/* Keeps the compiler from moving an access out of its guard. */
#define BARRIER __asm__ volatile("" ::: "memory")

/* The body of a function that makes one access: it returns 0, or -EFAULT when there is no memory. A macro,
 * because the frame that sigsetjmp was called in must be there when the handler jumps. */
#define GUARDED(access)                                                                                      \
    do {                                                                                                     \
        sigjmp_buf here;                                                                                     \
                                                                                                             \
        if (__builtin_expect(!faults_come, 0)) let_faults_come();                                            \
        if (sigsetjmp(here, 0)) return -EFAULT;                                                              \
        armed = &here;                                                                                       \
        BARRIER;                                                                                             \
        access;                                                                                              \
        BARRIER;                                                                                             \
        armed = NULL;                                                                                        \
        return 0;                                                                                            \
    } while (0)

/* The handler's: an access of this thread that is under a guard ends here. */
static void guard_take(const ucontext_t *ctx)
{
    sigjmp_buf *to = armed;

    if (!to) return;
    armed = NULL;
    /* The jump leaves the mask as it is in here, where the program's handler has signals blocked, and a
     * second fault would end the process. So back to what it was. */
    pthread_sigmask(SIG_SETMASK, &ctx->uc_sigmask, NULL);
    siglongjmp(*to, 1);
}

/* The kernel ends a process whose thread has a fault's signal blocked. Programs block all signals in threads
 * that are to handle none, and mean those that are sent. */
static void let_faults_come(void)
{
    sigset_t faults;

    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
    faults_come = true;
}

int sn_guard_install(void)
{
    return sn_handlers_install(guard_take);
}

/* The access itself is a call in each case: nothing that it changes lives in a register across the jump. */
int sn_guard_call(void (*fn)(void *arg), void *arg)
{
    GUARDED(fn(arg));
}

/*
 * A NIC's access to the program's memory is ordered by records and completions that the program's own
 * libraries read. ThreadSanitizer does not see those. For it, these bytes move by other means than loads and
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
