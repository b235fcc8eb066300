/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, for GPUs. */
#include "apps/faceverify/kernels_body.h"
