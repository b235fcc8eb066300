/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the stress test's kernels. */
#ifndef GW_TESTS_VERBS_STRESS_KERNELS_H
#define GW_TESTS_VERBS_STRESS_KERNELS_H

#include <gpuwire/verbs_device.h>

/* A thread's i-th request. A put is followed by an add to what it has written. */
enum stress_op { ST_PUT, ST_ADD, ST_PUT_IMM, ST_GET, ST_SWAP, ST_COUNT, ST_SIGNAL, ST_OPS };

/* Memory, in words of 8 bytes. The poster's: what it sends, then what it fetches, one for each token; the
 * other side's: one for each token, one for each signal, and the counter. */
#define ST_VALUE(token) (0x5700000000000000u + (token))
#define ST_WAS(token)   (0x1100000000000000u + (token)) /* there before */

struct stress_result {
    /* completions of requests that were not posted */
    uint32_t posted, completed, full, late, errors, not_mine;
    uint32_t taken; /* receives */
};

struct stress_args {
    struct gw_qp_handle *qp, *peer;
    struct gw_cq_handle *cq, *peer_cq;
    uint32_t structs; /* typed calls and libibverbs' structs, with completions; else tickets */
    uint32_t each, tokens;
    uint32_t receives; /* that will be taken: block 0 does */
    uint64_t here, there;
    uint32_t lkey, rkey;
    uint64_t limit_ns;
    uint32_t *seen; /* of each token: completions, and times 2^16 immediates */
    struct stress_result *result;
};

#endif
