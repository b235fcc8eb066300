/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of a mixture's calls. */
#ifndef SRC_COLLECTIVE_MOE_KERNEL_H
#define SRC_COLLECTIVE_MOE_KERNEL_H

#include <gpuwire/moe.h>

struct gw_moe_args {
    struct gw_comm_handle *comm;
    struct gw_moe_handle *moe;
    struct gw_moe_io io;
    uint64_t limit_ns; /* from the kernel's start */
    int32_t *result;   /* of each block */
    uint32_t back;     /* 0: dispatch, 1: combine */
};

GW_KERNEL_DECLARE(gw_moe_kernel);

#endif
