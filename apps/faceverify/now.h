/* SPDX-License-Identifier: Apache-2.0 */
/* The time, for programs of the host. */
#ifndef FACE_NOW_H
#define FACE_NOW_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds on CLOCK_MONOTONIC. */
static inline uint64_t face_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
