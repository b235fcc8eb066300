/* SPDX-License-Identifier: Apache-2.0 */
/* The turn, for CPU threads. */
#include "tests/generate/gpu/turn_kernels_body.h"
