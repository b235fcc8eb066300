/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h: GW_ASSERT_HELD(&mutex) states that the calling thread holds the mutex. GW_ASSERT_WRITER(&rwlock)
 * states that it may write what the lock protects. Host only; see assert.h.
 */
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

static inline int gw_writer_(const pthread_rwlock_t *l)
{
    return *(const volatile int *)&l->__data.__cur_writer == gw_self_();
}

#define GW_ASSERT_LOCK_(is, what) ((is) ? (void)0 : gw_assert_failed_(what, __FILE__, __LINE__))
#define GW_ASSERT_HELD(mutex)     GW_ASSERT_LOCK_(gw_held_(mutex), "this thread holds " #mutex)
#define GW_ASSERT_WRITER(rwlock)  GW_ASSERT_LOCK_(gw_writer_(rwlock), "this thread may write under " #rwlock)

#else

#define GW_ASSERT_HELD(mutex)    ((void)sizeof(mutex))
#define GW_ASSERT_WRITER(rwlock) ((void)sizeof(rwlock))

#endif

#endif
