/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perftest finds out twice at each start how many cycles a microsecond has: it spins for 0.2 s and looks at
 * the clock. The tests start it hundreds of times and do not believe its figures. Preloaded, this clock runs
 * 20 times as fast.
 */
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec now;

    (void)tz;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long us = (unsigned long long)now.tv_sec * 20000000 + (unsigned long long)now.tv_nsec / 50;
    tv->tv_sec = (time_t)(us / 1000000);
    tv->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}
