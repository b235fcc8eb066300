/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that tells its time: for each round that the host begins it writes its clock. */
#ifndef GW_HOST_CLOCK_KERNEL_H
#define GW_HOST_CLOCK_KERNEL_H

#include <gpuwire/kernel.h>

#define GW_CLOCK_ROUNDS   16
#define GW_CLOCK_LIMIT_NS 20000000u /* of its own clock: then it ends, whatever the host does */

struct gw_clock_page {
    uint32_t begun;                              /* the host's: rounds */
    uint32_t done __attribute__((aligned(128))); /* the kernel's */
    uint64_t clock;                              /* of the last round */
};

struct gw_clock_args {
    struct gw_clock_page *page;
};

#endif
