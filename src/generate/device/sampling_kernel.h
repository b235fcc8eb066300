/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling kernel: a block for each wanted row, of any number of threads. Compiled twice, by
 * sampling_kernel.c for CPU threads and by sampling_kernel.cu for a GPU. */
#ifndef GW_GENERATE_DEVICE_SAMPLING_KERNEL_H
#define GW_GENERATE_DEVICE_SAMPLING_KERNEL_H

#include "src/generate/device/sampling.h"

GW_KERNEL(gen_sampling, struct gen_args, a)
{
    for (uint32_t i = gw_block_idx(); i < a->work->outs; i += gw_grid_dim())
        if (!a->step->failed) gen_sample_row(a, i);
}

#endif
