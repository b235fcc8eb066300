/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks in one kernel: some blocks each. */
#ifndef TESTS_COLLECTIVE_PAIR_KERNEL_H
#define TESTS_COLLECTIVE_PAIR_KERNEL_H

#include <gpuwire/collective.h>

enum { PAIR_RANKS = 3 }; /* at most */

struct pair_args {
    struct gw_comm_handle *comm[PAIR_RANKS];
    struct gw_coll coll[PAIR_RANKS];
    uint32_t blocks; /* of a rank */
    uint32_t rounds;
    uint64_t *ns;    /* what the rounds took, in block 0 */
    int32_t *result; /* of each block */
};

GW_KERNEL_DECLARE(pair_rounds);

#endif
