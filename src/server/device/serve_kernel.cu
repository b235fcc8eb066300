/* SPDX-License-Identifier: Apache-2.0 */
#include "src/server/device/serve_kernel.h"
