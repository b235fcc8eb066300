/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, for GPUs. */
#include "tests/collective/kernels_body.h"
