/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that test_loop.c and bench/loop_bench.c make loops of. */
#ifndef GW_TESTS_LOOP_KERNELS_H
#define GW_TESTS_LOOP_KERNELS_H

#include <gpuwire/loop.h>

/* Host memory that host and stages share. */
struct loop_page {
    uint64_t request; /* the host counts up */
    uint64_t answer;  /* the loop follows */
    uint64_t middle;  /* what the stage between wait and answer made of the request */
    uint64_t seen[8];
    uint64_t told; /* the host: a variant that is ready */
};

struct loop_args {
    struct gw_loop_ctl *ctl;
    struct loop_page *page;
    uint64_t limit;
    int32_t error;
};

GW_KERNEL_DECLARE(loop_count_kernel);
GW_KERNEL_DECLARE(loop_fail_kernel);
GW_KERNEL_DECLARE(loop_wait_kernel);
GW_KERNEL_DECLARE(loop_work_kernel);
GW_KERNEL_DECLARE(loop_answer_kernel);
GW_KERNEL_DECLARE(loop_deaf_kernel);
GW_KERNEL_DECLARE(loop_empty_kernel);
GW_KERNEL_DECLARE(loop_wild_kernel);
GW_KERNEL_DECLARE(loop_pick_kernel);
GW_KERNEL_DECLARE(loop_pick_told_kernel);
GW_KERNEL_DECLARE(loop_variant_kernel);
GW_KERNEL_DECLARE(loop_company_kernel);
GW_KERNEL_DECLARE(loop_mark_kernel);
GW_KERNEL_DECLARE(loop_joined_kernel);

#endif
