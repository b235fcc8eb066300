/* SPDX-License-Identifier: Apache-2.0 */
/* What the program of docs/verbs.md tells its kernel. */
#ifndef GW_TESTS_VERBS_EXAMPLE_H
#define GW_TESTS_VERBS_EXAMPLE_H

#include <gpuwire/verbs_device.h>

struct hello_args {
    struct gw_qp_handle *from, *to;
    struct gw_cq_handle *from_cq, *to_cq;
    uint64_t laddr, raddr; /* "hello" lies at laddr and is written to raddr */
    uint32_t lkey, rkey, len;
    int *result;
};

#endif
