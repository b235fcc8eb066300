/* SPDX-License-Identifier: Apache-2.0 */
/* held.h: GW_ASSERT_HELD(&mutex) states that the calling thread holds the mutex. Host only; see assert.h. */
#ifndef GPUWIRE_DETAIL_HELD_H
#define GPUWIRE_DETAIL_HELD_H

#include <gpuwire/detail/assert.h>

#if defined(GW_ASSERTS) && defined(__GLIBC__)

#include <pthread.h>

/*
 * glibc notes in each lock the number of the thread that has it. A plain read is enough: another thread never
 * writes this thread's number there. A lock on the stack tells this thread's number. The system call takes
 * 40 times as long, and a number kept from an earlier call would be the parent's after fork().
 */
static inline int gw_self_(void)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    int self;

    pthread_mutex_lock(&own);
    self = own.__data.__owner;
    pthread_mutex_unlock(&own);
    pthread_mutex_destroy(&own);
    return self;
}

static inline int gw_held_(const pthread_mutex_t *m)
{
    return *(const volatile int *)&m->__data.__owner == gw_self_();
}

#define GW_ASSERT_HELD(mutex)                                                                                \
    (gw_held_(mutex) ? (void)0 : gw_assert_failed_("this thread holds " #mutex, __FILE__, __LINE__))

#else

#define GW_ASSERT_HELD(mutex) ((void)sizeof(mutex))

#endif

#endif
