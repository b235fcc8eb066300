/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/exec/exec_kernels_body.h"
