/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, for CPU threads. */
#include "apps/faceverify/kernels_body.h"
