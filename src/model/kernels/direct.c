/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of direct convolutions, for CPU threads. */
#include "src/model/kernels/direct.h"
