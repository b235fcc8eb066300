/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that reads memory, and does nothing else: how fast that can be. */
#ifndef GW_BENCH_GENERATE_READ_KERNELS_H
#define GW_BENCH_GENERATE_READ_KERNELS_H

#include <gpuwire/kernel.h>

struct read_args {
    const void *from;
    uint64_t bytes; /* a multiple of 16 */
    void *to;       /* written if a sum is a certain one: so nothing may be left out */
};

GW_KERNEL_DECLARE(read_kernel);

#endif
