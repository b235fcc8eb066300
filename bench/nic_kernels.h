/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of nic_bench: included by nic_kernels.c for the CPU and by nic_kernels.cu for the GPU. */
#ifndef GPUWIRE_BENCH_NIC_KERNELS_H
#define GPUWIRE_BENCH_NIC_KERNELS_H

#include <gpuwire/kernel.h>
#include <gpuwire/verbs_device.h>

struct nic_result {
    uint64_t ns;
    int64_t err;
};

struct nic_args {
    struct gw_qp_handle *qp;
    uint64_t laddr, raddr; /* as the work request has them */
    uint64_t *out, *in;    /* the ball: ours, as the kernel addresses it, and where the peer's comes back */
    uint32_t lkey, rkey, len, count;
    uint64_t limit_ns;
    struct nic_result *result;
};

#endif
