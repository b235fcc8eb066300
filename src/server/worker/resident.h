/* SPDX-License-Identifier: Apache-2.0 */
/* Which batch sizes of a model run inside the kernel that waits for requests, and the set-up of that
 * kernel. */
#ifndef GW_SERVER_WORKER_RESIDENT_H
#define GW_SERVER_WORKER_RESIDENT_H

#include <stdbool.h>

#include <gpuwire/exec.h>
#include <gpuwire/loop.h>
#include <gpuwire/model.h>

#include "src/server/device/resident_args.h"

/* Which plans are made for that kernel. */
enum gw_resident_mode {
    GW_RESIDENT_NEVER,  /* the default, until a GPU has run it */
    GW_RESIDENT_AUTO,   /* on a GPU, those that are measured to be small and no slower so */
    GW_RESIDENT_ALWAYS, /* all that can be */
};

/* The mode of that name: never, auto or always. -1: there is none. */
int gw_resident_parse(const char *name);

/* The measurements of a batch size, made with its plan. */
struct gw_resident_choice {
    uint64_t graph_ns, own_ns; /* a run as a graph, and inside the kernel; 0: not measured */
    uint32_t blocks;           /* that the kernel wants for it; 0: it cannot run it */
    char why[GW_MODEL_ERR];    /* why it cannot, or is not even asked */
    struct gwm_program_times times;
};

/* A worker's part of it. All zero at first, but for the mode. */
struct gw_resident {
    enum gw_resident_mode mode;
    struct gw_mem mem;
    struct gw_resident_args args;
    uint32_t blocks, threads; /* of the kernel; 0: there is none */
    uint32_t taken;           /* blocks of the GPU's share that are taken for it */
    struct gw_resident_choice choice[GW_SERVE_VARIANTS];
};

/*
 * Makes the plan of batch size number i: *plan is one that the kernel runs, which then knows its program, or
 * an ordinary one. 0 or as gw_plan_create.
 */
int gw_resident_plan(struct gw_resident *r, uint32_t i, const struct gw_model *model,
                     const struct gw_plan_options *options, struct gw_plan **plan, char why[GW_MODEL_ERR]);
/* Does the kernel run it? */
bool gw_resident_has(const struct gw_resident *r, uint32_t i);
/* Says in the log which way batches of `rows` rows of the model run, and why. */
void gw_resident_tell(const struct gw_resident *r, uint32_t i, const char *model, uint32_t rows);

/* The kernel as a stage, when gw_resident_has said yes for any: r->args.serve is complete. */
int gw_resident_stage(struct gw_resident *r, struct gw_exec *exec, struct gw_loop_stage *stage);
void gw_resident_free(struct gw_resident *r);

#endif
