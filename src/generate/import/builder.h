/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a program operator by operator. The first failure stays in `err`, with gw_last_error(), and what
 * follows does nothing: so an importer looks once, at the end.
 */
#ifndef GW_GENERATE_IMPORT_BUILDER_H
#define GW_GENERATE_IMPORT_BUILDER_H

#include "src/generate/program/program.h"

struct gen_build {
    struct gen_program *p;
    int err;
};

/* Heads of an operator that rotates or attends. */
struct gen_heads {
    uint32_t layer, heads, kv_heads, head;
    uint32_t window; /* 0: none */
    float scale, cap;
};

/* Memory of the program's; NULL: `err` is set. */
void *gen_build_alloc(struct gen_build *b, size_t count, size_t size);
/* All of a value, or `width` of it from `first` on. The value may be -1, after a failure. */
struct gen_part gen_build_all(const struct gen_build *b, int32_t value);
struct gen_part gen_build_part(int32_t value, uint32_t first, uint32_t width);
/* Appends *op, whose result is a new value of `width` elements. All that follow end here. */
int32_t gen_build_op(struct gen_build *b, struct gen_op *op, uint64_t width);

int32_t gen_build_linear(struct gen_build *b, struct gen_part a, const struct gen_weight *w,
                         const float *bias);
int32_t gen_build_add(struct gen_build *b, int32_t x, int32_t y);
int32_t gen_build_scale(struct gen_build *b, int32_t x, float scale);
int32_t gen_build_act(struct gen_build *b, struct gen_part a, enum gen_act act);
int32_t gen_build_gate(struct gen_build *b, struct gen_part gate, struct gen_part up, enum gen_act act);
int32_t gen_build_cap(struct gen_build *b, int32_t x, float cap);
int32_t gen_build_pick(struct gen_build *b, int32_t x);
int32_t gen_build_attend(struct gen_build *b, struct gen_part q, struct gen_part k, struct gen_part v,
                         const struct gen_heads *h);

#endif
