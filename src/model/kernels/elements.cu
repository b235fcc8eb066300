/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels over elements, for GPUs. */
#include "src/model/kernels/elements.h"
