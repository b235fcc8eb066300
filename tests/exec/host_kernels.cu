/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/exec/host_kernels_body.h"
