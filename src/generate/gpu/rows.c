/* SPDX-License-Identifier: Apache-2.0 */
/* Where values lie, and the operators whose kernels take each row alone. */
#include <errno.h>

#include "src/generate/gpu/inside.h"

struct gen_rows gen_gpu_rows(const struct gen_gpu *g, struct gen_part part)
{
    const struct gen_value *v = &g->value[part.value];

    if (part.value == g->p.logits)
        return (struct gen_rows){g->memory.logits + part.first, GW_DTYPE_F32, g->memory.logit_stride};
    char *at = (char *)g->arena.dev + v->at + part.first * gw_dtype_bytes(v->type);
    return (struct gen_rows){at, v->type, v->width};
}

struct gen_rows gen_gpu_out(const struct gen_gpu *g, int32_t value)
{
    return gen_gpu_rows(g, (struct gen_part){value, 0, g->value[value].width});
}

struct gen_count gen_gpu_count(const struct gen_gpu *g, int32_t value, uint32_t size)
{
    bool picked = g->value[value].picked;

    return (struct gen_count){g->memory.step, picked && g->o.lanes < size ? g->o.lanes : size, picked};
}

uint32_t gen_gpu_parts(uint32_t width)
{
    return (width + GEN_GPU_EACH - 1) / GEN_GPU_EACH;
}

static int rows_embed(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    bool learned = op->kind == GEN_LEARNED;
    struct gen_embed_args a = {.count = gen_gpu_count(g, op->out, size),
                               .y = gen_gpu_out(g, op->out),
                               .scale = learned ? 1 : op->scale,
                               .parts = gen_gpu_parts(op->weight.k),
                               .learned = learned,
                               .offset = learned ? (uint32_t)op->offset : 0};
    int err = gen_gpu_matrix(g, &op->weight, &a.w);

    return err ? err : gen_gpu_launch(l, &gen_embed_kernel, (uint64_t)a.count.most * a.parts, g->threads, &a);
}

/* A power of two, so that threads have a few elements each. */
static uint32_t rows_norm_threads(const struct gen_gpu *g, uint32_t segment)
{
    uint32_t n = 32;

    if (gw_exec_kind(g->exec) == GW_EXEC_CPU) return g->threads;
    while (n < 512 && n * 8 < segment) n *= 2;
    return n;
}

static int rows_norm(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    struct gen_norm_args a = {.count = gen_gpu_count(g, it->out[0], size),
                              .x = gen_gpu_rows(g, op->a),
                              .y = gen_gpu_out(g, it->out[0]),
                              .segment = op->segment,
                              .segments = op->a.width / op->segment,
                              .mean = op->mean,
                              .epsilon = op->epsilon};
    int err = gen_gpu_factors(g, &op->weight, op->plus_one, &a.weight);

    if (!err) err = gen_gpu_floats(g, op->bias, op->segment, &a.bias);
    if (err) return err;
    if (it->add.value >= 0) a.add = gen_gpu_rows(g, it->add);
    return gen_gpu_launch(l, &gen_norm_kernel, (uint64_t)a.count.most * a.segments,
                          rows_norm_threads(g, op->segment), &a);
}

static int rows_turn(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    struct gen_place_args a = {.count = gen_gpu_count(g, op->out, size),
                               .y = gen_gpu_out(g, op->out),
                               .type = g->o.type,
                               .width = op->a.width,
                               .parts = gen_gpu_parts(op->a.width)};
    int err = gen_gpu_turn(g, op, op->a, op->head, &a.q);

    return err ? err : gen_gpu_launch(l, &gen_place_kernel, (uint64_t)a.count.most * a.parts, g->threads, &a);
}

static int rows_pick(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    struct gen_pick_args a = {.count = gen_gpu_count(g, op->out, size),
                              .x = gen_gpu_rows(g, op->a),
                              .y = gen_gpu_out(g, op->out),
                              .width = op->a.width,
                              .parts = gen_gpu_parts(op->a.width)};

    return gen_gpu_launch(l, &gen_pick_kernel, (uint64_t)a.count.most * a.parts, g->threads, &a);
}

static int rows_each(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    bool two = it->ins == 2;
    struct gen_each_args a = {.count = gen_gpu_count(g, op->out, size),
                              .a = gen_gpu_rows(g, op->a),
                              .y = gen_gpu_out(g, op->out),
                              .act = op->act,
                              .width = op->a.width,
                              .parts = gen_gpu_parts(op->a.width),
                              .number = op->kind == GEN_CAP ? op->cap : op->scale};
    int err = 0;

    if (two) a.b = gen_gpu_rows(g, op->b);
    switch (op->kind) {
    case GEN_ADD: a.kind = GEN_EACH_ADD; break;
    case GEN_MUL: a.kind = two ? GEN_EACH_MUL : GEN_EACH_SCALE; break;
    case GEN_ACT: a.kind = GEN_EACH_ACT; break;
    case GEN_GATE: a.kind = GEN_EACH_GATE; break;
    default: a.kind = GEN_EACH_CAP;
    }
    if (op->kind == GEN_ADD && !two) err = gen_gpu_floats(g, op->bias, op->a.width, &a.bias);
    if (err) return err;
    return gen_gpu_launch(l, &gen_each_kernel, (uint64_t)a.count.most * a.parts, g->threads, &a);
}

int gen_gpu_each(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    switch (it->kind) {
    case GEN_EMBED:
    case GEN_LEARNED: return rows_embed(g, it, size, l);
    case GEN_NORM: return rows_norm(g, it, size, l);
    case GEN_ROTATE: return rows_turn(g, it, size, l);
    case GEN_PICK: return rows_pick(g, it, size, l);
    default: return rows_each(g, it, size, l);
    }
}
