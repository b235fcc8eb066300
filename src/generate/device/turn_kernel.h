/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's kernel: one block. Compiled twice, by turn_kernel.c for CPU threads and by turn_kernel.cu
 * for a GPU. */
#ifndef GW_GENERATE_DEVICE_TURN_KERNEL_H
#define GW_GENERATE_DEVICE_TURN_KERNEL_H

#include "src/generate/device/turn.h"

GW_KERNEL(gen_turn, struct gen_args, a)
{
    gen_turn_all(a);
}

#endif
