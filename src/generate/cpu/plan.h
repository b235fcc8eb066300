/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program becomes a list of items, each of which all threads work on together. Three things are joined:
 * products that read the same rows, the norm before a product, and what is done to each element after one.
 */
#ifndef GW_GENERATE_CPU_PLAN_H
#define GW_GENERATE_CPU_PLAN_H

#include "src/generate/cpu/kernels.h"
#include "src/generate/program/program.h"

enum gen_cpu_kind {
    GEN_CPU_ROWS,    /* operators that take row by row; an ATTEND among them stores keys and values */
    GEN_CPU_PRODUCT, /* rows times one or more weights */
    GEN_CPU_ATTEND,
};

/* An operator on each element of a product's result, done where the result is made. */
struct gen_cpu_tail {
    const struct gen_op *op;
    bool second; /* the result is the operator's b */
};

/* One result of a product. */
struct gen_cpu_segment {
    struct gen_weight w, up;     /* up.data NULL: there is none */
    const float *bias, *up_bias; /* NULL: none */
    const struct gen_op *gate;   /* joins the products of w and up */
    uint32_t tail, tails;        /* of gen_cpu_plan's */
    int32_t out;
};

struct gen_cpu_item {
    enum gen_cpu_kind kind;
    bool picked;               /* of the wanted rows */
    const struct gen_op *op;   /* PRODUCT: one whose input it is; ATTEND */
    const struct gen_op *norm; /* PRODUCT: its input goes through this first; NULL: none */
    uint32_t first, count;     /* of gen_cpu_plan's `row` or `segment` */
};

struct gen_cpu_plan {
    const struct gen_program *program;
    struct gen_cpu_item *item;
    const struct gen_op **row;
    struct gen_cpu_segment *segment;
    struct gen_cpu_tail *tail;
    uint32_t items, rows, segments, tails;
    struct gen_cpu_norm *norm; /* of each operator of the program that is one */
    int *first, *last;         /* of each value: the items that write it, and that read it last; -1: none */
    bool *picked;              /* of each value */
};

/* Makes the plan of a checked program. 0, -ENOMEM. */
int gen_cpu_plan_make(const struct gen_program *p, struct gen_cpu_plan **out);
/* NULL is allowed. */
void gen_cpu_plan_free(struct gen_cpu_plan *plan);

/* A product's input: the rows as they are before its norm. */
static inline const struct gen_part *gen_cpu_input(const struct gen_cpu_item *item)
{
    return item->norm ? &item->norm->a : &item->op->a;
}

#endif
