/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels over elements, for CPU threads. */
#include "src/model/kernels/elements.h"
