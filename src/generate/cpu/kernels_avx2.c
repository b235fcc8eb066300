/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of rows, compiled for processors with AVX2, FMA and F16C. */
#include "src/generate/cpu/vector_avx2.h"

#define KERNELS gen_cpu_kernels_avx2
#include "src/generate/cpu/kernels_body.h"
