/* SPDX-License-Identifier: Apache-2.0 */
/* Of several ways to do what a node says, the fastest. */
#ifndef GW_MODEL_GPU_PICK_H
#define GW_MODEL_GPU_PICK_H

#include "src/model/gpu/gpu.h"
#include "src/model/gpu/store.h"

/* One way to do what a node says. `setting` counts from 0 to settings - 1; -ENOTSUP: not for this node. */
struct gwm_way {
    const char *name;
    int settings;
    int (*lower)(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
};

/* Lowers a node in the fastest of the ways, or in the first that works where nothing is measured. `what`
 * describes all that the times depend on. */
int gwm_gpu_pick(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, const char *what,
                 const struct gwm_way *ways);

#endif
