/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of a decoder with random weights in bf16, as a graph, by its number of rows.
 *
 *     generate_step_bench [--shape 0 | 1] [--tokens N] [--lanes N]
 *
 * Shape 0 has 0.3 billion weights, shape 1 has 7 billion. Each lane has that number of tokens. Prints for
 * each size the time, the bytes of weights, keys and values that a step must read, what that is a second,
 * what plain reads get in the same run, and the ratio. Steps of more rows than lanes are chunks of one
 * prompt.
 */
#include <math.h>
#include <stdio.h>

#include "bench/generate/gpu_rig.h"

struct shape {
    const char *name;
    uint32_t layers, hidden, heads, kv_heads, head, inner, vocab;
};

static const struct shape shapes[] = {
    {"0.3B", 16, 1024, 16, 8, 64, 4096, 32000},
    {"7B", 32, 4096, 32, 8, 128, 14336, 32000},
};

struct build {
    struct gen_program *p;
    const struct shape *s;
    uint32_t positions;
    float *ones, *cosine, *sine;
};

static int32_t build_linear(struct build *b, int32_t x, uint32_t n)
{
    struct gen_op op = {.kind = GEN_LINEAR, .a = rig_all(b->p, x), .weight = rig_weight(n, b->p->width[x])};

    return rig_add(b->p, op, n);
}

static int32_t build_norm(struct build *b, int32_t x)
{
    struct gen_op op = {.kind = GEN_NORM, .a = rig_all(b->p, x), .epsilon = 1e-5f, .segment = b->s->hidden};

    op.weight = (struct gen_weight){.format = GEN_F32, .n = 1, .k = b->s->hidden, .data = b->ones};
    return rig_add(b->p, op, b->s->hidden);
}

static int32_t build_turn(struct build *b, int32_t x)
{
    struct gen_op op = {
        .kind = GEN_ROTATE, .a = rig_all(b->p, x), .head = b->s->head, .half = b->s->head / 2};

    op.cosine = b->cosine;
    op.sine = b->sine;
    op.positions = b->positions;
    return rig_add(b->p, op, b->p->width[x]);
}

static int32_t build_sum(struct build *b, int32_t x, int32_t y)
{
    struct gen_op op = {.kind = GEN_ADD, .a = rig_all(b->p, x), .b = rig_all(b->p, y)};

    return rig_add(b->p, op, b->s->hidden);
}

static int32_t build_layer(struct build *b, int32_t x, uint32_t layer)
{
    const struct shape *s = b->s;
    int32_t norm = build_norm(b, x), q, k, v, up;
    struct gen_op op = {.kind = GEN_ATTEND, .layer = layer, .heads = s->heads, .kv_heads = s->kv_heads};

    q = build_linear(b, norm, s->heads * s->head);
    k = build_linear(b, norm, s->kv_heads * s->head);
    v = build_linear(b, norm, s->kv_heads * s->head);
    op.a = rig_all(b->p, build_turn(b, q));
    op.b = rig_all(b->p, build_turn(b, k));
    op.c = rig_all(b->p, v);
    op.head = op.value_head = s->head;
    op.scale = 1 / sqrtf((float)s->head);
    x = build_sum(b, x, build_linear(b, rig_add(b->p, op, s->heads * s->head), s->hidden));
    norm = build_norm(b, x);
    op = (struct gen_op){.kind = GEN_GATE, .act = GEN_SILU};
    up = build_linear(b, norm, s->inner);
    op.a = rig_all(b->p, build_linear(b, norm, s->inner));
    op.b = rig_all(b->p, up);
    return build_sum(b, x, build_linear(b, rig_add(b->p, op, s->inner), s->hidden));
}

static struct gen_program *program(const struct shape *s, uint32_t positions)
{
    struct build b = {.p = gen_program_new(), .s = s, .positions = positions};
    uint32_t half = s->head / 2;
    struct gen_op op = {.kind = GEN_EMBED, .weight = rig_weight(s->vocab, s->hidden), .scale = 1};
    int32_t x;

    b.p->vocab = s->vocab;
    b.p->max_position = positions;
    b.ones = gen_program_alloc(b.p, s->hidden * sizeof(float));
    b.cosine = gen_program_alloc(b.p, (size_t)positions * half * sizeof(float));
    b.sine = gen_program_alloc(b.p, (size_t)positions * half * sizeof(float));
    for (uint32_t i = 0; i < s->hidden; i++) b.ones[i] = 1;
    for (uint32_t i = 0; i < positions * half; i++) {
        double angle = i / half * pow(10000, -(double)(i % half) / half);
        b.cosine[i] = (float)cos(angle), b.sine[i] = (float)sin(angle);
    }
    x = rig_add(b.p, op, s->hidden);
    for (uint32_t i = 0; i < s->layers; i++) x = build_layer(&b, x, i);
    x = rig_add(b.p, (struct gen_op){.kind = GEN_PICK, .a = rig_all(b.p, x)}, s->hidden);
    b.p->logits = build_linear(&b, build_norm(&b, x), s->vocab);
    return b.p;
}

int main(int argc, char **argv)
{
    const struct shape *s = &shapes[rig_option(argc, argv, "--shape", 0) ? 1 : 0];
    struct rig r = {.exec = rig_exec(),
                    .lanes = rig_option(argc, argv, "--lanes", 64),
                    .tokens = rig_option(argc, argv, "--tokens", 1024),
                    .max_rows = 1024};
    double limit, each;

    if (r.tokens < r.max_rows) r.tokens = r.max_rows; /* the largest chunk is a prompt of one lane */
    rig_open(&r, program(s, r.tokens));
    limit = rig_bandwidth(&r);
    each = 2.0 * s->layers * r.tokens * s->kv_heads * s->head * 2; /* bytes of a lane's keys and values */
    for (uint32_t i = 0; i < r.shape.sizes; i++) {
        uint32_t size = r.shape.size[i];
        /* A step reads the rows of the embedding that it needs, and no more. */
        double bytes =
            (double)r.shape.weight_bytes - 2.0 * s->vocab * s->hidden + each * (size > r.lanes ? 1 : size);
        double us = rig_time(&r, size);
        printf("step,%s,%u rows,%u tokens,%.1f us,%.3f GB,%.0f GB/s,%.0f GB/s,%.3f\n", s->name, size,
               r.tokens, us, bytes / 1e9, bytes / us / 1e3, limit / 1e9, bytes / us * 1e6 / limit);
        fflush(stdout);
    }
    rig_close(&r);
    return gw_exec_destroy(r.exec) != 0;
}
