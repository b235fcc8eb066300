/* SPDX-License-Identifier: Apache-2.0 */
/* Products and attention of any types and shapes, for CPU threads. */
#include "src/generate/gpu/kernels/attend_any.h"
#include "src/generate/gpu/kernels/square.h"
