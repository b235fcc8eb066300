/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of rows, compiled for any processor. */
#include "src/generate/cpu/vector_plain.h"

#define KERNELS gen_cpu_kernels_plain
#include "src/generate/cpu/kernels_body.h"
