/* SPDX-License-Identifier: Apache-2.0 */
/* held.h: GW_ASSERT_HELD(&mutex) states that the calling thread holds the mutex. Host only; see assert.h. */
#ifndef GPUWIRE_DETAIL_HELD_H
#define GPUWIRE_DETAIL_HELD_H

#include <gpuwire/detail/assert.h>

#if defined(GW_ASSERTS) && defined(__GLIBC__)

#include <pthread.h>
#include <unistd.h>

/* glibc notes the owner of each mutex. A plain read will do: another thread's write there is never this
 * thread's number. */
#define GW_ASSERT_HELD(mutex) GW_ASSERT(*(volatile int *)&(mutex)->__data.__owner == gettid())

#else

#define GW_ASSERT_HELD(mutex) ((void)sizeof(mutex))

#endif

#endif
