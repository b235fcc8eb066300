/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/rio_kernels_body.h"
