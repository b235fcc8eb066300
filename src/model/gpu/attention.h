/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: two products, and a softmax between them. */
#ifndef GW_MODEL_GPU_ATTENTION_H
#define GW_MODEL_GPU_ATTENTION_H

#include "src/model/gpu/gpu.h"

/* Is it a part of an attention, whose last product may do its work? Then it is put off. */
bool gwm_gpu_attention_part(const struct gwm_gpu *p, const struct gwm_node *n);
/* The last product of an attention, with all of it; -ENOTSUP: it is none. */
int gwm_gpu_attention(struct gwm_gpu *p, const struct gwm_node *n);

#endif
