/* SPDX-License-Identifier: Apache-2.0 */
/* Appends operators to a program, and remembers the first failure. */
#include "src/generate/import/builder.h"

#include <errno.h>

#include <gpuwire/error.h>

void *gen_build_alloc(struct gen_build *b, size_t count, size_t size)
{
    size_t bytes;
    void *at = NULL;

    if (b->err) return NULL;
    if (!__builtin_mul_overflow(count, size, &bytes)) at = gen_program_alloc(b->p, bytes);
    if (!at) b->err = gw_error(-ENOMEM, "no memory for %zu numbers of a model", count);
    return at;
}

struct gen_part gen_build_all(const struct gen_build *b, int32_t value)
{
    return (struct gen_part){value, 0, value < 0 ? 0 : b->p->width[value]};
}

struct gen_part gen_build_part(int32_t value, uint32_t first, uint32_t width)
{
    return (struct gen_part){value, first, width};
}

int32_t gen_build_op(struct gen_build *b, struct gen_op *op, uint64_t width)
{
    if (b->err) return -1;
    op->out = width > GEN_PROGRAM_MAX_WIDTH ? -E2BIG : gen_program_value(b->p, (uint32_t)width);
    b->err = op->out < 0 ? op->out : gen_program_add(b->p, op);
    if (!b->err) return op->out;
    gw_error(b->err, "the model has too many operators, or a row of %llu numbers", (unsigned long long)width);
    return -1;
}

int32_t gen_build_linear(struct gen_build *b, struct gen_part a, const struct gen_weight *w,
                         const float *bias)
{
    struct gen_op op = {.kind = GEN_LINEAR, .a = a, .weight = *w, .bias = bias};

    return gen_build_op(b, &op, w->n);
}

int32_t gen_build_add(struct gen_build *b, int32_t x, int32_t y)
{
    struct gen_op op = {.kind = GEN_ADD, .a = gen_build_all(b, x), .b = gen_build_all(b, y)};

    return gen_build_op(b, &op, op.a.width);
}

int32_t gen_build_scale(struct gen_build *b, int32_t x, float scale)
{
    struct gen_op op = {.kind = GEN_MUL, .a = gen_build_all(b, x), .b.value = -1, .scale = scale};

    return gen_build_op(b, &op, op.a.width);
}

int32_t gen_build_act(struct gen_build *b, struct gen_part a, enum gen_act act)
{
    struct gen_op op = {.kind = GEN_ACT, .a = a, .act = act};

    return gen_build_op(b, &op, a.width);
}

int32_t gen_build_gate(struct gen_build *b, struct gen_part gate, struct gen_part up, enum gen_act act)
{
    struct gen_op op = {.kind = GEN_GATE, .a = gate, .b = up, .act = act};

    return gen_build_op(b, &op, gate.width);
}

int32_t gen_build_cap(struct gen_build *b, int32_t x, float cap)
{
    struct gen_op op = {.kind = GEN_CAP, .a = gen_build_all(b, x), .cap = cap};

    return gen_build_op(b, &op, op.a.width);
}

int32_t gen_build_pick(struct gen_build *b, int32_t x)
{
    struct gen_op op = {.kind = GEN_PICK, .a = gen_build_all(b, x)};

    return gen_build_op(b, &op, op.a.width);
}

int32_t gen_build_attend(struct gen_build *b, struct gen_part q, struct gen_part k, struct gen_part v,
                         const struct gen_heads *h)
{
    struct gen_op op = {
        .kind = GEN_ATTEND,
        .a = q,
        .b = k,
        .c = v,
        .layer = h->layer,
        .heads = h->heads,
        .kv_heads = h->kv_heads,
        .head = h->head,
        .value_head = h->head,
        .window = h->window,
        .scale = h->scale,
        .cap = h->cap,
    };

    return gen_build_op(b, &op, (uint64_t)h->heads * h->head);
}
