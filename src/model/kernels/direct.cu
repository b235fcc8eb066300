/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of direct convolutions, for GPUs. */
#include "src/model/kernels/direct.h"
