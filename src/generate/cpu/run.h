/* SPDX-License-Identifier: Apache-2.0 */
/* What a network on CPU threads has while it runs, and how each kind of item is run. */
#ifndef GW_GENERATE_CPU_RUN_H
#define GW_GENERATE_CPU_RUN_H

#include "src/generate/cpu/plan.h"
#include "src/generate/cpu/team.h"
#include "src/generate/step/step.h"

#define GEN_CPU_ALIGN   64u
#define GEN_CPU_OUTPUTS 1024u /* of a product's chunk, at most */
#define GEN_CPU_TILE    8u    /* rows of a run that one thread attends with at a time */

/* One thread's own memory. */
struct gen_cpu_member {
    float *x;      /* a product's input, as its weights take it */
    float *up;     /* the second product of a gate: [rows][outputs of a chunk] */
    float *panel;  /* gen_cpu_product's */
    float *attend; /* queries and sums of a tile of rows */
    uint64_t x_of; /* which input lies in x: the number of the product, and of the block of rows */
};

/* Up to GEN_CPU_TILE rows of a run. */
struct gen_cpu_tile {
    uint32_t run, row, rows;
};

struct gen_cpu_run {
    const struct gen_cpu_plan *plan;
    const struct gen_cpu_kernels *kernels;
    struct gen_team *team;
    struct gen_step *step;
    struct gen_cache cache;
    float **value;    /* row 0 of each value; NULL: no item writes it */
    uint32_t *stride; /* of each value: floats from one row to the next */
    struct gen_cpu_member *member;
    struct gen_cpu_tile *tile; /* [max_rows] */
    uint32_t tiles;
    uint64_t products; /* that have been run */
};

/* Each runs one item of the step that is there. One thread at a time; all the team's threads work on it. */
void gen_cpu_run_rows(struct gen_cpu_run *r, const struct gen_cpu_item *item);
void gen_cpu_run_product(struct gen_cpu_run *r, const struct gen_cpu_item *item);
void gen_cpu_run_attend(struct gen_cpu_run *r, const struct gen_cpu_item *item);

/* Cuts the step's runs into tiles, for all ATTEND items. */
void gen_cpu_cut_tiles(struct gen_cpu_run *r);

/* Floats of a member's memory that the plan's items need at most. */
size_t gen_cpu_x_floats(const struct gen_cpu_plan *plan, uint32_t max_rows);
size_t gen_cpu_up_floats(const struct gen_cpu_plan *plan, uint32_t max_rows);
size_t gen_cpu_panel_floats(const struct gen_cpu_plan *plan);
size_t gen_cpu_attend_floats(const struct gen_cpu_plan *plan);

/* Rows that an item has in this step. */
static inline uint32_t gen_cpu_rows(const struct gen_cpu_run *r, const struct gen_cpu_item *item)
{
    return item->picked ? r->step->outs : r->step->rows;
}

static inline float *gen_cpu_row(const struct gen_cpu_run *r, int32_t value, uint32_t row)
{
    return r->value[value] + (size_t)row * r->stride[value];
}

static inline const float *gen_cpu_part(const struct gen_cpu_run *r, const struct gen_part *part,
                                        uint32_t row)
{
    return gen_cpu_row(r, part->value, row) + part->first;
}

#endif
