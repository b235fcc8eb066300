/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h: clocks and medians of benchmarks. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Seconds that this thread has run: other work on the machine takes none of them. */
static inline double bench_thread_seconds(void)
{
    return bench_clock(CLOCK_THREAD_CPUTIME_ID);
}
static inline double bench_seconds(void)
{
    return bench_clock(CLOCK_MONOTONIC);
}

/* A counter that is cheap to read: the processor's where it has one, else nanoseconds. */
static inline uint64_t bench_ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)(bench_seconds() * 1e9);
#endif
}

static inline int bench_by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}
/* Sorts the n values. */
static inline double bench_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), bench_by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

#endif
