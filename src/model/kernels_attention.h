/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in one launch: softmax(scale Q Kᵀ) V for each head of each batch, read and written where it lies.
 * A block takes so many rows of Q, and all of K and V. Its kernels differ in the size of a head. */
#ifndef GW_MODEL_KERNELS_ATTENTION_H
#define GW_MODEL_KERNELS_ATTENTION_H

#include "src/model/kernels.h"

#define GWM_HEAD_MAX 128

GW_DEV int32_t gwm_lines_start(const struct gwm_lines *l, int32_t product, int32_t heads)
{
    return l->start + product / heads * l->batch + product % heads * l->head;
}

#define GWM_ATTENTION(size)                                                                                  \
    GW_KERNEL(gwm_attention_##size, struct gwm_attention_args, a)                                            \
    {                                                                                                        \
        GWM_ATTEND(size)(a);                                                                                 \
    }
#define GWM_ATTENTIONS                                                                                       \
    GWM_ATTENTION(32) GWM_ATTENTION(64) GWM_ATTENTION(80) GWM_ATTENTION(96) GWM_ATTENTION(128)

#endif
