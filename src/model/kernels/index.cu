/* SPDX-License-Identifier: Apache-2.0 */
#include "src/model/kernels/index.h"
