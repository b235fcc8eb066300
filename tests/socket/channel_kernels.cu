/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/channel_kernels_body.h"
