/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/gpunet_kernels_body.h"
