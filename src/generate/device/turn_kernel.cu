/* SPDX-License-Identifier: Apache-2.0 */
#include "src/generate/device/turn_kernel.h"
