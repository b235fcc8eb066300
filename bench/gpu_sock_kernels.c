/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu_sock_kernels_body.h"
