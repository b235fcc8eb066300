/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for loop_gpu.cu when the program is built without nvcc: there is no GPU executor to start a loop
 * on. */
#include <errno.h>

#include "src/loop/impl.h"

static int gpu_absent(struct gw_loop *l)
{
    return gw_error(-ENODEV, "%s: this build has no GPU executor", l->name);
}

static int loop_none_build(struct gw_loop *l, uint32_t variant)
{
    (void)variant;
    return gpu_absent(l);
}

static void loop_none_join(struct gw_loop *l)
{
    (void)l;
}

static int loop_none_ended(struct gw_loop *l)
{
    (void)l;
    return 1;
}

static void loop_none_destroy(struct gw_loop *l)
{
    (void)l;
}

const struct gw_loop_ops gw_loop_gpu_ops = {gpu_absent,     loop_none_build, gpu_absent,
                                            loop_none_join, loop_none_ended, loop_none_destroy};
