/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a test that unmaps some of it and then looks at what becomes of accesses to the hole. The kernel
 * gives a hole to the next mapping: of a thread that allocates, or of a sanitizer. So it lies where the
 * kernel places nothing by itself, hundreds of gigabytes below where it begins, and a hole stays one.
 */
#ifndef TESTS_APART_H
#define TESTS_APART_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Private, readable and writable, zero; munmap takes it away. NULL when there is none to be had. */
static inline void *map_apart(size_t bytes)
{
    /* In every sanitizer's layout of an x86-64 process this belongs to the program. */
    for (uintptr_t at = 0x7e9000000000; at < 0x7ea000000000; at += 0x40000000) {
        void *p = mmap((void *)at, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (p == (void *)at) return p;
        if (p != MAP_FAILED)
            munmap(p, bytes); /* a kernel that takes the address for a wish */
        else if (errno != EEXIST)
            break;
    }
    return NULL;
}

#endif
