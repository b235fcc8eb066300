/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/pingpong_kernel.h"
