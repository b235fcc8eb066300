/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loop/loop_kernels_body.h"
