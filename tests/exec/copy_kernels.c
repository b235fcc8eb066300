/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/exec/copy_kernels_body.h"
