/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, for CPU threads. */
#include "tests/collective/kernels_body.h"
