/* SPDX-License-Identifier: Apache-2.0 */
#include "pingpong_kernel.h"
