/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that pick by index, for CPU threads. */
#include "src/model/kernels/index.h"
