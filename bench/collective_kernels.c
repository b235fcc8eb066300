/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of collective_bench.c, for CPU threads. */
#include "bench/collective_kernels_body.h"
