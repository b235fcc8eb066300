/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that compute, reduce and go on. */
#ifndef TESTS_COLLECTIVE_KERNELS_H
#define TESTS_COLLECTIVE_KERNELS_H

#include <gpuwire/collective.h>

struct step_args {
    struct gw_comm_handle *comm;
    float *x, *y, *z;
    uint32_t n, rounds;
    int32_t *result; /* of each block */
};

GW_KERNEL_DECLARE(test_steps);

#endif
