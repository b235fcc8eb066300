/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/exec/sync_kernels_body.h"
