/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for gpu.cu when the program is built without nvcc. */
#include <errno.h>
#include <stdio.h>

#include "src/exec/impl.h"

static const char reason[] = "this build has no GPU executor: build it where CUDA's nvcc is installed";

int gw_gpu_available(char *why, size_t size)
{
    if (why) snprintf(why, size, "%s", reason);
    return 0;
}

int gw_gpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec)
{
    (void)opts;
    (void)exec;
    return gw_error(-ENODEV, "no GPU: %s", reason);
}
