/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/datagram_kernels_body.h"
