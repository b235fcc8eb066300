/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that add up, for GPUs. */
#include "src/model/kernels/reduce.h"
