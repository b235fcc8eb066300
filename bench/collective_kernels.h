/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel of collective_bench.c runs: the same operation again and again. */
#ifndef BENCH_COLLECTIVE_KERNELS_H
#define BENCH_COLLECTIVE_KERNELS_H

#include <gpuwire/collective.h>

struct collective_args {
    struct gw_comm_handle *comm;
    struct gw_coll coll;
    uint32_t warm, rounds;
    uint64_t *ns;    /* what `rounds` took, in block 0 */
    int32_t *result; /* of each block */
};

GW_KERNEL_DECLARE(collective_rounds);

#endif
