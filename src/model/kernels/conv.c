/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution kernels, for CPU threads. */
#include "src/model/kernels/conv.h"
