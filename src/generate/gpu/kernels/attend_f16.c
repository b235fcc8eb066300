/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on tensor cores, with values and a cache of type F16, for CPU threads. */
#include "src/generate/gpu/kernels/attend_warps.h"

WARPS_KERNELS(gen_attend_f16, GW_DTYPE_F16)
