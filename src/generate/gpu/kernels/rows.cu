/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that work on each row alone, for a GPU. */
#include "src/generate/gpu/kernels/rows.h"
