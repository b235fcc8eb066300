/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/rd_kernels_body.h"
