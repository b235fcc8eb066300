/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/datagram_kernels_body.h"
