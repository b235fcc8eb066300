/* SPDX-License-Identifier: Apache-2.0 */
/* Products on tensor cores, with values of type BF16, for a GPU. */
#include "src/generate/gpu/kernels/linear.h"

LINEAR_KERNELS(gen_linear_bf16, GW_DTYPE_BF16, 0)
LINEAR_KERNELS(gen_linear_bf16_q4, GW_DTYPE_BF16, 1)
