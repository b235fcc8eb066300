/* SPDX-License-Identifier: Apache-2.0 */
/* The test's kernel for GPUs. */
#include "../product_gpu.h"

#include "product_kernel.h"
