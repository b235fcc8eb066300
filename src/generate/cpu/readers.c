/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of readers: counted first, then filled in. */
#include "src/generate/cpu/readers.h"

#include <errno.h>
#include <stdlib.h>

/* The values that an operator reads; how many. */
static uint32_t op_reads(const struct gen_op *op, int32_t value[3])
{
    uint32_t n = 0;

    if (op->kind == GEN_EMBED || op->kind == GEN_LEARNED) return 0;
    value[n++] = op->a.value;
    if (gen_cpu_reads_b(op)) value[n++] = op->b.value;
    if (op->kind == GEN_ATTEND) value[n++] = op->c.value;
    return n;
}

int gen_cpu_readers_find(const struct gen_program *p, struct gen_cpu_readers *r)
{
    int32_t value[3];

    r->start = calloc((size_t)p->values + 2, sizeof(*r->start));
    r->reader = calloc(3 * (size_t)p->ops, sizeof(*r->reader));
    r->writer = calloc(p->values, sizeof(*r->writer));
    if (!r->start || !r->reader || !r->writer) return -ENOMEM;
    for (uint32_t i = 0; i < p->values; i++) r->writer[i] = -1;
    for (uint32_t i = 0; i < p->ops; i++) {
        r->writer[p->op[i].out] = (int32_t)i;
        for (uint32_t k = op_reads(p->op + i, value); k--;) r->start[value[k] + 2]++;
    }
    /* One place further on, so that filling in moves the starts to where they belong. */
    for (uint32_t i = 2; i < p->values + 2; i++) r->start[i] += r->start[i - 1];
    for (uint32_t i = 0; i < p->ops; i++)
        for (uint32_t k = op_reads(p->op + i, value); k--;) r->reader[r->start[value[k] + 1]++] = i;
    return 0;
}

void gen_cpu_readers_free(struct gen_cpu_readers *r)
{
    free(r->start);
    free(r->reader);
    free(r->writer);
}

const struct gen_op *gen_cpu_only_reader(const struct gen_program *p, const struct gen_cpu_readers *r,
                                         int32_t value)
{
    uint32_t from = r->start[value], to = r->start[value + 1];

    if (from == to || value == p->logits || r->reader[from] != r->reader[to - 1]) return NULL;
    return p->op + r->reader[from];
}
