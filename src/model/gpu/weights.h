/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and biases of convolutions as constants of a plan. */
#ifndef GW_MODEL_GPU_WEIGHTS_H
#define GW_MODEL_GPU_WEIGHTS_H

#include "src/model/gpu/gpu.h"

/* Weights and bias of a convolution as constants of that element type. They are oc × kh × kw × c/group when
 * the channels are last, otherwise as in the file. A bias there is always. */
int gwm_conv_weights(struct gwm_gpu *p, const struct gwm_conv *c, bool last, bool half);
int gwm_conv_bias(struct gwm_gpu *p, const struct gwm_conv *c, bool half);

#endif
