/* SPDX-License-Identifier: Apache-2.0 */
/* Products on tensor cores, with values of type F16, for CPU threads. */
#include "src/generate/gpu/kernels/linear.h"

LINEAR_KERNELS(gen_linear_f16, GW_DTYPE_F16, 0)
LINEAR_KERNELS(gen_linear_f16_q4, GW_DTYPE_F16, 1)
