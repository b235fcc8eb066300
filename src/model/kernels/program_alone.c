/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that runs a program, for CPU threads. */
#include "src/model/kernels/program_alone.h"
