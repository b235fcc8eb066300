/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/socket_kernels_body.h"
