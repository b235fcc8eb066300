/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/nic_kernels_body.h"
