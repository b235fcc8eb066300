/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of a mixture's calls, for GPUs. */
#include "src/collective/moe_kernel_body.h"
