/* SPDX-License-Identifier: Apache-2.0 */
/* The host's clocks. The engine itself reads none: its time is a parameter. */
#ifndef SOFTNIC_BASE_CLOCK_H
#define SOFTNIC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of one of clock_gettime's clocks. */
static inline uint64_t sn_clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC: what deadlines and waits count in. */
static inline uint64_t sn_now_ns(void)
{
    return sn_clock_ns(CLOCK_MONOTONIC);
}

#endif
