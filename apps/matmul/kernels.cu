/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of matrix products, for GPUs. */
#include "product_gpu.h"

#include "ask_kernel.h"
#include "server_kernels.h"
