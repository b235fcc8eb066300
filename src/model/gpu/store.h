/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a convolution or product while it stores its result. */
#ifndef GW_MODEL_GPU_STORE_H
#define GW_MODEL_GPU_STORE_H

#include "src/model/graph/graph.h"

struct gwm_product;
struct gwm_attention;

struct gwm_store {
    int out; /* the value that is written */
    int add; /* a value added before the activation, or -1 */
    struct gwm_act act;
    int32_t block;                     /* depth-to-space by this much; 1 is none */
    bool block_first;                  /* as in struct gwm_conv_args */
    const struct gwm_product *product; /* products only */
    uint32_t last;                     /* of a product; GWM_LAST: its result and `add` are N H W C */
    const struct gwm_attention *attention;
};

#endif
