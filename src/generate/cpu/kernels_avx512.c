/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of rows, compiled for processors with AVX-512. */
#include "src/generate/cpu/vector_avx512.h"

#define KERNELS gen_cpu_kernels_avx512
#include "src/generate/cpu/kernels_body.h"
