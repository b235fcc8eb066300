/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels, for GPUs. */
#include "src/model/kernels/conv.h"
