/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that runs a program, for GPUs. */
#include "src/model/kernels/program_alone.h"
