/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of matrix products, for CPU threads. */
#include "product_cpu.h"

#include "ask_kernel.h"
#include "server_kernels.h"
