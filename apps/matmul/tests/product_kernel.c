/* SPDX-License-Identifier: Apache-2.0 */
/* The test's kernel for CPU threads. */
#include "../product_cpu.h"

#include "product_kernel.h"
