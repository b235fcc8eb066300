/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of pair.c, for CPU threads. */
#include "tests/collective/pair_kernel_body.h"
