/* SPDX-License-Identifier: Apache-2.0 */
#include "src/server/device/resident_kernel.h"
