/* SPDX-License-Identifier: Apache-2.0 */
/* How importers build a row program, piece by piece. */
#include "src/generate/program/program.h"

#include <errno.h>
#include <stdlib.h>

struct gen_program_memory {
    struct gen_program_memory *next;
    max_align_t bytes[];
};

struct gen_program *gen_program_new(void)
{
    struct gen_program *p = calloc(1, sizeof(*p));

    if (p) p->logits = -1;
    return p;
}

void gen_program_free(struct gen_program *p)
{
    if (!p) return;
    if (p->release) p->release(p->ctx);
    for (struct gen_program_memory *m = p->memory, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(p->op);
    free(p->width);
    free(p);
}

/* Room for one more of `size` bytes in an array of n. It doubles at each power of two. */
static void *program_grow(void *array, uint32_t n, size_t size)
{
    if (n & (n - 1)) return array;
    return reallocarray(array, n ? 2 * (size_t)n : 1, size);
}

int32_t gen_program_value(struct gen_program *p, uint32_t width)
{
    uint32_t *grown;

    if (p->values >= GEN_PROGRAM_MAX_VALUES || width > GEN_PROGRAM_MAX_WIDTH) return -E2BIG;
    if (!(grown = program_grow(p->width, p->values, sizeof(*p->width)))) return -ENOMEM;
    p->width = grown;
    p->width[p->values] = width;
    return (int32_t)p->values++;
}

int gen_program_add(struct gen_program *p, const struct gen_op *op)
{
    struct gen_op *grown;

    if (p->ops >= GEN_PROGRAM_MAX_OPS) return -E2BIG;
    if (!(grown = program_grow(p->op, p->ops, sizeof(*p->op)))) return -ENOMEM;
    p->op = grown;
    p->op[p->ops++] = *op;
    return 0;
}

void *gen_program_alloc(struct gen_program *p, size_t bytes)
{
    struct gen_program_memory *m;

    if (bytes > SIZE_MAX - sizeof(*m)) return NULL;
    if (!(m = calloc(1, sizeof(*m) + bytes))) return NULL;
    m->next = p->memory;
    p->memory = m;
    return m->bytes;
}
