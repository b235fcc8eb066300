/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/serve_kernels_body.h"
