/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator reads, and which operators of a program read a value. */
#ifndef GW_GENERATE_CPU_READERS_H
#define GW_GENERATE_CPU_READERS_H

#include "src/generate/program/program.h"

struct gen_cpu_readers {
    uint32_t *start; /* [values + 1]: value v's are reader[start[v]] … reader[start[v + 1] - 1], ascending */
    uint32_t *reader;
    int32_t *writer; /* [values]: the operator that writes it; -1: none */
};

/* 0, -ENOMEM: then it is to be freed, too. */
int gen_cpu_readers_find(const struct gen_program *p, struct gen_cpu_readers *r);
void gen_cpu_readers_free(struct gen_cpu_readers *r);

/* The only operator that reads a value, once or more; NULL: there are others, or none, or it is the
 * program's result. */
const struct gen_op *gen_cpu_only_reader(const struct gen_program *p, const struct gen_cpu_readers *r,
                                         int32_t value);

/* Does the operator take each element of a, and of b, alone? */
static inline bool gen_cpu_elementwise(const struct gen_op *op)
{
    return op->kind == GEN_ADD || op->kind == GEN_MUL || op->kind == GEN_ACT || op->kind == GEN_GATE ||
           op->kind == GEN_CAP;
}

/* Does it read b? */
static inline bool gen_cpu_reads_b(const struct gen_op *op)
{
    return op->kind == GEN_GATE || op->kind == GEN_ATTEND ||
           ((op->kind == GEN_ADD || op->kind == GEN_MUL) && op->b.value >= 0);
}

#endif
