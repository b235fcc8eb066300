/* SPDX-License-Identifier: Apache-2.0 */
/* A product and a sum with a number for each channel. */
#ifndef GW_MODEL_CPU_DNNL_AFFINE_H
#define GW_MODEL_CPU_DNNL_AFFINE_H

#include "src/model/cpu/dnnl.h"

/* A number for each channel, or with step 0 one for all. */
struct gwm_per_channel {
    const float *from;
    int step;
};

/* A product and a sum with numbers per channel: normalisation of a batch that no convolution could take. */
struct gwm_affine {
    struct gwm_per_channel by, plus;
    int sum; /* the node of the sum, whose function comes last */
};

/* Is node `n` the product of such? */
bool gwm_affine_find(const struct gwm_cpu *p, const struct gwm_node *n, struct gwm_affine *a);
/* Constants for the plan, one for each channel; the buffer's number. */
int gwm_fixed_channels(struct gwm_cpu *p, int32_t channels, struct gwm_per_channel is);

#endif
