/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of rows, in versions for what the processor has. Each function computes on one thread.
 *
 * Sums go in an order that depends on their length alone. Element i is added to partial sum i % 16. The 16
 * are then added in pairs: i with i + 8, i + 4, i + 2, i + 1. So a row's result is the same, bit for bit,
 * whichever rows, outputs or threads it is computed with.
 */
#ifndef GW_GENERATE_CPU_KERNELS_H
#define GW_GENERATE_CPU_KERNELS_H

#include "src/generate/program/program.h"

#define GEN_CPU_GROUP 32u /* products read their input in groups of that number of floats */

/* Rows times a weight. */
struct gen_cpu_product {
    const struct gen_weight *w;
    const float
        *x; /* [rows][x_stride]: w->k floats, then zeros up to x_stride, a multiple of GEN_CPU_GROUP */
    uint32_t rows, x_stride;
    uint32_t from, to; /* outputs */
    float *out;        /* output `from` of the first row */
    size_t out_stride;
    float *panel; /* scratch: [4][x_stride] */
};

struct gen_cpu_norm {
    float *factor, *bias; /* [segment]; bias may be NULL */
    uint32_t segment;
    float epsilon;
    bool mean;
};

/* Tokens of one page, attended to by one row's queries of one head of keys. */
struct gen_cpu_attend {
    const void *key, *value; /* the page's first token, in `dtype` */
    uint32_t dtype, width;   /* elements from one token to the next */
    uint32_t from, to;       /* tokens of the page */
    const float *query;      /* [group][stride]; zeros after `head` elements */
    uint32_t group, head, value_head, stride;
    float scale, cap;
    /* The softmax so far: the largest score, the sum of exp(score - most), and the values' sum. */
    float *most, *sum, *out; /* [group], [group], [group][stride] */
};

struct gen_cpu_kernels {
    const char *name;
    void (*product)(const struct gen_cpu_product *p);
    /* Puts n floats, whole groups, into the order in which products with Q4 weights take them. */
    void (*order)(float *x, uint32_t n);
    void (*norm)(const struct gen_cpu_norm *norm, const float *a, float *out, uint32_t n);
    /* An operator that works on each element (ADD, MUL, ACT, GATE, CAP); b: the second operand, or NULL. out
     * may be a or b. */
    void (*element)(const struct gen_op *op, const float *a, const float *b, float *out, uint32_t n);
    void (*store)(uint32_t dtype, void *to, const float *from, uint32_t n);
    void (*attend)(const struct gen_cpu_attend *a);
};

/* Finds the kernels of that name: "avx512", "avx2" or "plain"; NULL: the best ones. Returns NULL where this
 * processor does not have them. */
const struct gen_cpu_kernels *gen_cpu_kernels(const char *name);

extern const struct gen_cpu_kernels gen_cpu_kernels_plain;
#if defined(__x86_64__)
extern const struct gen_cpu_kernels gen_cpu_kernels_avx2, gen_cpu_kernels_avx512;
#endif

#endif
