/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>

#include "bench/modes/device.h"

static int create(const struct modes_device_opts *opts, struct modes_device **out)
{
    (void)opts, (void)out;
    return gw_error(-ENODEV, "modes: built without CUDA; ask for the CPU, or build with nvcc");
}

const struct modes_device_ops modes_on_gpu = {create, NULL, NULL, NULL, NULL};
