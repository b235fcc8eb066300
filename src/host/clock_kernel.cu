/* SPDX-License-Identifier: Apache-2.0 */
#include "src/host/clock_kernel_body.h"
