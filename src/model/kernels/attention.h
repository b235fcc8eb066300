/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in one launch: softmax(scale Q Kᵀ) V for each head of each batch, read and written where it lies.
 * A block takes this number of rows of Q, and all of K and V. Its kernels differ in the size of a head. */
#ifndef GW_MODEL_KERNELS_ATTENTION_H
#define GW_MODEL_KERNELS_ATTENTION_H

#include "src/model/kernels/device.h"

#define GWM_HEAD_MAX 128

GW_DEV int32_t gwm_lines_start(const struct gwm_lines *l, int32_t product, int32_t heads)
{
    return l->start + product / heads * l->batch + product % heads * l->head;
}

/* NAME ## SIZE for each size of a head that there is a kernel for; it does GWM_ATTEND(SIZE, its argument). */
#define GWM_ATTENTION(name, size)                                                                            \
    GW_KERNEL(name##size, struct gwm_attention_args, a)                                                      \
    {                                                                                                        \
        GWM_ATTEND(size, a);                                                                                 \
    }
#define GWM_ATTENTIONS(name)                                                                                 \
    GWM_ATTENTION(name, 32)                                                                                  \
    GWM_ATTENTION(name, 64) GWM_ATTENTION(name, 80) GWM_ATTENTION(name, 96) GWM_ATTENTION(name, 128)

#include "src/model/kernels/attention_rows.h"
#ifdef __CUDACC__
#include "src/model/kernels/attention_warps.h"
#endif

#endif
