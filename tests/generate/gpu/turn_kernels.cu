/* SPDX-License-Identifier: Apache-2.0 */
/* The turn, for a GPU. */
#include "tests/generate/gpu/turn_kernels_body.h"
