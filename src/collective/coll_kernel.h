/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that the host's calls launch. */
#ifndef SRC_COLLECTIVE_COLL_KERNEL_H
#define SRC_COLLECTIVE_COLL_KERNEL_H

#include <gpuwire/collective.h>

struct gw_coll_args {
    struct gw_comm_handle *comm;
    struct gw_coll coll;
    uint64_t limit_ns; /* from the kernel's start */
    int32_t *result;   /* of each block */
};

GW_KERNEL_DECLARE(gw_coll_kernel);

#endif
