/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU thread's loop: it polls, has the model run, and posts the answer. */
#ifndef MODES_LOOP_H
#define MODES_LOOP_H

#include "bench/modes/device.h"
#include "src/server/device/shared.h"

struct modes_loop {
    const struct gw_serve_args *args; /* set by modes_loop_stages */
    const struct modes_device_ops *ops;
    struct modes_device *device;
    uint32_t kind;
};

/* Adds the one stage to a worker's loop; ctx is a struct modes_loop. For struct gw_worker_own. */
int modes_loop_stages(void *ctx, struct gw_loop *loop, const struct gw_serve_args *args);

#endif
