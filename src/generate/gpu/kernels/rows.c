/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that work on each row alone, for CPU threads. */
#include "src/generate/gpu/kernels/rows.h"
