/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of test_face_lbp, for GPUs. */
#include "apps/faceverify/tests/lbp_kernels_body.h"
