/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that test_exec.c launches: who a thread is, barriers, warp functions, shared memory. */
#ifndef GW_TESTS_EXEC_KERNELS_H
#define GW_TESTS_EXEC_KERNELS_H

#include <gpuwire/kernel.h>

#define TEST_ROUNDS 20

struct whoami {
    uint32_t thread, block_dim, block, grid_dim, lane, warp, warp_size, mask;
};

struct out_args {
    uint32_t *out;
    uint32_t n;
};

struct whoami_args {
    struct whoami *out;
};

struct flag_args {
    uint32_t *flag, *out;
};

struct bell_args {
    uint64_t *reg;
    uint64_t *clock;
};

struct block_u32 {
    uint32_t v[1024];
};

#endif
