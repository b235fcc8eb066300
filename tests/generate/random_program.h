/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_program.h: small decoders with random weights, built as the known families are: Llama, Qwen, Gemma,
 * Phi, GPT-2. A seed says which parts a program has; so tests of all networks see every operator, format and
 * odd width.
 */
#ifndef GW_TESTS_GENERATE_RANDOM_PROGRAM_H
#define GW_TESTS_GENERATE_RANDOM_PROGRAM_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/program/number.h"
#include "src/generate/program/program.h"
#include "tests/rnd.h"

/* What a program is made of. */
struct random_shape {
    uint32_t layers, hidden, heads, kv_heads, head, value_head, inner, vocab, positions;
    enum gen_format format;       /* of the large weights */
    uint32_t block, scale_type;   /* Q4 */
    bool zeros, zeros_are_floats; /* Q4 */
    bool packed;                  /* queries, keys and values are one LINEAR; gate and up too */
    bool parallel;                /* attention and the rest read the same norm (Phi) */
    bool post_norms;              /* norms after attention and the rest as well (Gemma 2) */
    bool head_norms;              /* norms of queries and keys of each head (Qwen 3) */
    bool mean_norms;              /* LayerNorm, with biases */
    bool plus_one;
    bool gated; /* act(gate) * up; otherwise act(up) */
    bool biases;
    bool tied;    /* the embedding is the head's weight as well */
    bool learned; /* learned positions, no rotation */
    bool interleaved, sinks, scaled;
    uint32_t half, window; /* window: of every second layer */
    float cap, final_cap;
    enum gen_act act;
};

struct random_program {
    struct gen_program *p;
    struct rnd rnd;
    struct random_shape s;
};

static float random_float(struct random_program *r, float most)
{
    return ((float)rnd_below(&r->rnd, 20001) / 10000 - 1) * most;
}

static float *random_floats(struct random_program *r, size_t n, float around, float most)
{
    float *f = gen_program_alloc(r->p, n * sizeof(*f));

    for (size_t i = 0; i < n; i++) f[i] = around + random_float(r, most);
    return f;
}

/* The same numbers in another type; the type is an enum gen_format but GEN_Q4. */
static void *random_narrow(struct random_program *r, const float *f, size_t n, uint32_t type)
{
    uint16_t *h = gen_program_alloc(r->p, n * sizeof(*h));

    if (type == GEN_F32) return (void *)(uintptr_t)f;
    for (size_t i = 0; i < n; i++) gen_number_put(type == GEN_F16 ? GW_DTYPE_F16 : GW_DTYPE_BF16, h, i, f[i]);
    return h;
}

/* A matrix whose products with numbers around 1 are around 1. */
static struct gen_weight random_weight(struct random_program *r, uint32_t n, uint32_t k)
{
    struct gen_weight w = {.format = r->s.format, .n = n, .k = k};
    uint32_t blocks = (k + r->s.block - 1) / r->s.block;
    float size = 1.7f / sqrtf((float)k);

    if (w.format != GEN_Q4) {
        w.data = random_narrow(r, random_floats(r, (size_t)n * k, 0, size), (size_t)n * k, w.format);
        return w;
    }
    w.block = r->s.block;
    w.scale_type = r->s.scale_type;
    w.data = gen_program_alloc(r->p, (size_t)n * blocks * (w.block / 2));
    rnd_bytes(&r->rnd, (void *)(uintptr_t)w.data, (size_t)n * blocks * (w.block / 2));
    w.scale = random_narrow(r, random_floats(r, (size_t)n * blocks, size / 8, size / 16), (size_t)n * blocks,
                            w.scale_type);
    if (r->s.zeros && r->s.zeros_are_floats) {
        w.zero_is_float = true;
        w.zero =
            random_narrow(r, random_floats(r, (size_t)n * blocks, 7.5f, 1), (size_t)n * blocks, w.scale_type);
    } else if (r->s.zeros) {
        uint8_t *zero = gen_program_alloc(r->p, (size_t)n * ((blocks + 1) / 2));

        for (size_t i = 0; i < (size_t)n * ((blocks + 1) / 2); i++)
            zero[i] = (uint8_t)((7 + rnd_below(&r->rnd, 3)) | (7 + rnd_below(&r->rnd, 3)) << 4);
        w.zero = zero;
    }
    return w;
}

static struct gen_part random_whole(const struct random_program *r, int32_t value)
{
    return (struct gen_part){.value = value, .width = r->p->width[value]};
}

/* Appends an operator whose result has that width; returns the result. */
static int32_t random_add(struct random_program *r, struct gen_op op, uint32_t width)
{
    op.out = gen_program_value(r->p, width);
    if (op.out < 0 || gen_program_add(r->p, &op)) abort();
    return op.out;
}

static int32_t random_norm(struct random_program *r, struct gen_part a, uint32_t segment)
{
    struct gen_op op = {.kind = GEN_NORM, .a = a, .epsilon = 1e-5f, .segment = segment};

    op.mean = r->s.mean_norms;
    op.plus_one = r->s.plus_one;
    op.weight = (struct gen_weight){.n = 1, .k = segment};
    op.weight.format = rnd_below(&r->rnd, 2) ? GEN_BF16 : GEN_F32;
    op.weight.data =
        random_narrow(r, random_floats(r, segment, op.plus_one ? 0 : 1, 0.3f), segment, op.weight.format);
    if (op.mean) op.bias = random_floats(r, segment, 0, 0.3f);
    return random_add(r, op, a.width);
}

static int32_t random_linear(struct random_program *r, struct gen_part a, uint32_t n)
{
    struct gen_op op = {.kind = GEN_LINEAR, .a = a, .weight = random_weight(r, n, a.width)};

    if (r->s.biases) op.bias = random_floats(r, n, 0, 0.2f);
    return random_add(r, op, n);
}

/* n LINEARs of one input, or one and its parts. */
static void random_linears(struct random_program *r, int32_t in, const uint32_t *width, uint32_t n,
                           struct gen_part *out)
{
    uint32_t whole = 0;
    int32_t packed;

    for (uint32_t i = 0; i < n; i++) whole += width[i];
    packed = r->s.packed ? random_linear(r, random_whole(r, in), whole) : -1;
    for (uint32_t i = 0, first = 0; i < n; first += width[i++]) {
        if (packed >= 0)
            out[i] = (struct gen_part){.value = packed, .first = first, .width = width[i]};
        else
            out[i] = random_whole(r, random_linear(r, random_whole(r, in), width[i]));
    }
}

static struct gen_part random_rotate(struct random_program *r, struct gen_part a)
{
    struct gen_op op = {.kind = GEN_ROTATE, .a = a, .head = r->s.head, .half = r->s.half};
    size_t n = (size_t)r->s.positions * r->s.half;
    float *cosine = gen_program_alloc(r->p, n * sizeof(*cosine));
    float *sine = gen_program_alloc(r->p, n * sizeof(*sine));

    for (size_t i = 0; i < n; i++) {
        double angle = (double)(i / r->s.half) * pow(10000, -(double)(i % r->s.half) / r->s.half);

        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    op.interleaved = r->s.interleaved;
    op.cosine = cosine;
    op.sine = sine;
    op.positions = r->s.positions;
    return random_whole(r, random_add(r, op, a.width));
}

static int32_t random_attention(struct random_program *r, int32_t in, uint32_t layer)
{
    const struct random_shape *s = &r->s;
    uint32_t width[3] = {s->heads * s->head, s->kv_heads * s->head, s->kv_heads * s->value_head};
    struct gen_op op = {.kind = GEN_ATTEND, .layer = layer, .heads = s->heads, .kv_heads = s->kv_heads};
    struct gen_part part[3];

    random_linears(r, in, width, 3, part);
    for (uint32_t i = 0; i < 2 && s->head_norms; i++)
        part[i] = random_whole(r, random_norm(r, part[i], s->head));
    for (uint32_t i = 0; i < 2 && !s->learned; i++) part[i] = random_rotate(r, part[i]);
    op.a = part[0];
    op.b = part[1];
    op.c = part[2];
    op.head = s->head;
    op.value_head = s->value_head;
    op.scale = 1 / sqrtf((float)s->head);
    op.cap = s->cap;
    op.window = layer % 2 ? s->window : 0;
    if (s->sinks) op.sink = random_floats(r, s->heads, 0, 2);
    return random_linear(r, random_whole(r, random_add(r, op, s->heads * s->value_head)), s->hidden);
}

static int32_t random_mlp(struct random_program *r, int32_t in)
{
    uint32_t width[2] = {r->s.inner, r->s.inner};
    struct gen_op op = {.kind = r->s.gated ? GEN_GATE : GEN_ACT, .act = r->s.act, .b = GEN_NO_PART};
    struct gen_part part[2];

    random_linears(r, in, width, r->s.gated ? 2 : 1, part);
    op.a = part[0];
    if (r->s.gated) op.b = part[1];
    return random_linear(r, random_whole(r, random_add(r, op, r->s.inner)), r->s.hidden);
}

static int32_t random_sum(struct random_program *r, int32_t a, int32_t b)
{
    struct gen_op op = {.kind = GEN_ADD, .a = random_whole(r, a), .b = random_whole(r, b)};

    return random_add(r, op, op.a.width);
}

static int32_t random_layer(struct random_program *r, int32_t x, uint32_t layer)
{
    int32_t norm = random_norm(r, random_whole(r, x), r->s.hidden), a, b;

    a = random_attention(r, norm, layer);
    if (r->s.post_norms) a = random_norm(r, random_whole(r, a), r->s.hidden);
    if (r->s.parallel) return random_sum(r, random_sum(r, a, random_mlp(r, norm)), x);
    x = random_sum(r, x, a);
    b = random_mlp(r, random_norm(r, random_whole(r, x), r->s.hidden));
    if (r->s.post_norms) b = random_norm(r, random_whole(r, b), r->s.hidden);
    return random_sum(r, x, b);
}

static int32_t random_embed(struct random_program *r, struct gen_weight *table)
{
    const struct random_shape *s = &r->s;
    struct gen_op op = {.kind = GEN_EMBED, .weight = random_weight(r, s->vocab, s->hidden)};
    int32_t x;

    *table = op.weight;
    op.scale = s->scaled ? sqrtf((float)s->hidden) : 1;
    x = random_add(r, op, s->hidden);
    if (s->learned) {
        op.kind = GEN_LEARNED;
        op.offset = 2;
        op.weight = random_weight(r, s->positions + 2, s->hidden);
        x = random_sum(r, x, random_add(r, op, s->hidden));
    }
    if (s->scaled) {
        op = (struct gen_op){.kind = GEN_MUL, .a = random_whole(r, x), .b = GEN_NO_PART, .scale = 0.5f};
        x = random_add(r, op, s->hidden);
    }
    return x;
}

/* A program of that shape; it is not checked yet. */
static struct gen_program *random_program_of(const struct random_shape *s, uint64_t seed)
{
    struct random_program r = {.p = gen_program_new(), .rnd = {seed * 2 + 1}, .s = *s};
    struct gen_op op = {.kind = GEN_PICK};
    struct gen_weight table;
    int32_t x;

    if (!r.p) abort();
    r.p->vocab = s->vocab;
    r.p->max_position = s->positions;
    x = random_embed(&r, &table);
    for (uint32_t i = 0; i < s->layers; i++) x = random_layer(&r, x, i);
    op.a = random_whole(&r, x);
    x = random_add(&r, op, s->hidden);
    x = random_norm(&r, random_whole(&r, x), s->hidden);
    op = (struct gen_op){.kind = GEN_LINEAR, .a = random_whole(&r, x)};
    op.weight = s->tied ? table : random_weight(&r, s->vocab, s->hidden);
    x = random_add(&r, op, s->vocab);
    if (s->biases) {
        op = (struct gen_op){.kind = GEN_ADD, .a = random_whole(&r, x), .b = GEN_NO_PART};
        op.bias = random_floats(&r, s->vocab, 0, 0.2f);
        x = random_add(&r, op, s->vocab);
    }
    if (s->final_cap > 0) {
        op = (struct gen_op){.kind = GEN_CAP, .a = random_whole(&r, x), .cap = s->final_cap};
        x = random_add(&r, op, s->vocab);
    }
    r.p->logits = x;
    return r.p;
}

/* The shape that a seed stands for. */
static struct random_shape random_shape_of(uint64_t seed)
{
    static const uint32_t heads[] = {8, 16, 20, 32, 64, 80, 96, 128};
    static const uint32_t blocks[] = {16, 32, 64, 128, 256};
    struct rnd r = {(seed + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    struct random_shape s = {.layers = 1 + rnd_below(&r, 3), .positions = 512};

    s.kv_heads = 1 + rnd_below(&r, 3);
    s.heads = s.kv_heads * (1 + rnd_below(&r, 4));
    s.value_head = s.head = heads[rnd_below(&r, 8)];
    if (rnd_below(&r, 8) == 0) s.value_head = heads[rnd_below(&r, 8)];
    s.hidden = 8 * (2 + rnd_below(&r, 20));
    s.inner = 8 * (2 + rnd_below(&r, 40)) + (rnd_below(&r, 4) ? 0 : rnd_below(&r, 8));
    s.vocab = 50 + rnd_below(&r, 300);
    s.format = rnd_below(&r, 4);
    s.block = blocks[rnd_below(&r, 5)];
    s.scale_type = rnd_below(&r, 3);
    s.zeros = rnd_below(&r, 2);
    s.zeros_are_floats = rnd_below(&r, 2);
    s.packed = rnd_below(&r, 2);
    s.parallel = !rnd_below(&r, 4);
    s.post_norms = !rnd_below(&r, 4);
    s.head_norms = !rnd_below(&r, 4);
    s.mean_norms = !rnd_below(&r, 3);
    s.plus_one = !rnd_below(&r, 3);
    s.gated = rnd_below(&r, 4);
    s.biases = !rnd_below(&r, 2);
    s.tied = rnd_below(&r, 2);
    s.learned = !rnd_below(&r, 6);
    s.interleaved = !rnd_below(&r, 4);
    s.sinks = !rnd_below(&r, 4);
    s.scaled = !rnd_below(&r, 3);
    s.half = rnd_below(&r, 3) ? s.head / 2 : s.head / 4;
    s.window = rnd_below(&r, 2) ? 1 + rnd_below(&r, 40) : 0;
    s.cap = rnd_below(&r, 3) ? 0 : 5;
    s.final_cap = rnd_below(&r, 3) ? 0 : 3;
    s.act = rnd_below(&r, 6);
    return s;
}

/* The program that a seed stands for; it is not checked yet. */
static inline struct gen_program *random_program(uint64_t seed)
{
    struct random_shape s = random_shape_of(seed);

    return random_program_of(&s, seed);
}

#endif
