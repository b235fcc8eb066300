/* SPDX-License-Identifier: Apache-2.0 */
/* The stages that a serving loop consists of, on whichever executor it runs. */
#ifndef GW_SERVER_WORKER_STAGES_H
#define GW_SERVER_WORKER_STAGES_H

#include <stdbool.h>

#include <gpuwire/exec.h>
#include <gpuwire/loop.h>
#include <gpuwire/model.h>

#include "src/server/device/shared.h"

GW_KERNEL_DECLARE(gw_serve_wait);
GW_KERNEL_DECLARE(gw_serve_send);
GW_KERNEL_DECLARE(gw_serve_company);
GW_KERNEL_DECLARE(gw_serve_gather);
GW_KERNEL_DECLARE(gw_serve_scatter);

/* Threads that put requests together on a GPU: enough, in GW_STAGES_BLOCKS blocks, to keep its bus busy. */
#define GW_STAGES_BLOCKS  64
#define GW_STAGES_THREADS 256

/* A loop that is being made, or that gets a variant. */
struct gw_stages {
    struct gw_loop *loop;
    struct gw_exec *exec;
    const struct gw_serve_args *args; /* complete */
};

/* A batch size's model as a stage; it stays where it is while the loop lives. */
struct gw_stages_model {
    const struct gw_serve_args *args;
    struct gw_plan *plan;
    int run_error; /* CPU: what the last failed run ended with; 0: none has failed. Atomic */
};

/* Adds a kernel to a variant, with as many of the threads as the executor's blocks have; `beside` as in
 * struct gw_loop_stage. As gw_loop_add. */
int gw_stages_kernel(const struct gw_stages *s, uint32_t variant, const struct gw_kernel *kernel,
                     uint32_t blocks, uint32_t threads, uint32_t beside);
/* Adds the model to a variant. */
int gw_stages_model(const struct gw_stages *s, uint32_t variant, struct gw_stages_model *model);
/* Adds the kernels that put requests together: beside each other, on a GPU, with the one that receives what
 * comes during the run. `company`: that one is added; `copies`: the others are. */
int gw_stages_before(const struct gw_stages *s, uint32_t variant, bool company, bool copies);
/* Adds the kernels that take a batch of up to `rows` rows apart, and send its answers. */
int gw_stages_after(const struct gw_stages *s, uint32_t variant, uint32_t rows);

#endif
