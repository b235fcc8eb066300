/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row program: a decoder as a list of operators that each work on rows. Importers write programs; networks
 * on CPU threads and on GPUs run them.
 *
 * A value has one vector for each row of a step, `width` floats long. A network may hold values in a shorter
 * type on a GPU. Operators take the rows one by one, but for ATTEND, which reads the cache too, and PICK,
 * which keeps the wanted rows: the values after it have one vector for each of these.
 *
 * Weights point into memory of the importer's, often a mapped file. They stay as the file has them.
 */
#ifndef GW_GENERATE_PROGRAM_PROGRAM_H
#define GW_GENERATE_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuwire/dtype.h>

#define GEN_PROGRAM_MAX_OPS      65536
#define GEN_PROGRAM_MAX_VALUES   65536
#define GEN_PROGRAM_MAX_WIDTH    (1u << 20)
#define GEN_PROGRAM_MAX_POSITION (1u << 28)

enum gen_format {
    GEN_F32,
    GEN_F16,
    GEN_BF16,
    /*
     * Blocks of 4 bits: element (n, k) is (q - zero) * scale of its block of `block` elements along k. The
     * quants lie as [n][ceil(k / block)][block / 2] bytes, the lower 4 bits first. The scales lie as
     * [n][ceil(k / block)]. `zero` is NULL (all are 8), bytes of two zeros each, [n][ceil(blocks / 2)], or
     * elements of the scales' type. ONNX's MatMulNBits is that.
     */
    GEN_Q4,
};

/* A matrix of n rows (of outputs) and k columns; a vector has n = 1. Pointers are aligned to the elements. */
struct gen_weight {
    enum gen_format format;
    uint32_t n, k;
    const void *data;
    /* Q4 alone: */
    uint32_t block;      /* 16, 32, 64, 128 or 256 */
    uint32_t scale_type; /* GEN_F32, GEN_F16 or GEN_BF16 */
    const void *scale, *zero;
    bool zero_is_float; /* `zero` has elements of scale_type */
};

enum gen_act { GEN_SILU, GEN_GELU, GEN_GELU_TANH, GEN_RELU, GEN_QUICK_GELU, GEN_RELU2 };

enum gen_op_kind {
    GEN_EMBED,   /* out = weight[token] * scale. No input. */
    GEN_LEARNED, /* out = weight[position + offset]: learned positions. No input. */
    GEN_NORM,    /* over each `segment` elements of a: rms or mean and variance; * weight[segment] (+ bias).
                  * weight.data NULL: the factor is 1. */
    GEN_LINEAR,  /* out = weight a (+ bias) */
    GEN_ROTATE,  /* rotates each head's first 2 * half elements by the row's position */
    GEN_ATTEND,  /* a: queries, b: keys, c: values; see below */
    GEN_ADD,     /* out = a + b; or a + bias, where there is no b */
    GEN_MUL,     /* out = a * b; or a * scale, where there is no b */
    GEN_ACT,     /* out = act(a) */
    GEN_GATE,    /* out = act(a) * b */
    GEN_CAP,     /* out = tanh(a / cap) * cap */
    GEN_PICK,    /* out = the wanted rows of a */
};

/* Part of a value: `width` elements from `first` on. Operators do not look at parts that they do not take. */
struct gen_part {
    int32_t value; /* -1: none */
    uint32_t first, width;
};
#define GEN_NO_PART ((struct gen_part){.value = -1})

struct gen_op {
    enum gen_op_kind kind;
    struct gen_part a, b, c;
    int32_t out;              /* a value that no earlier operator has written */
    struct gen_weight weight; /* EMBED, LEARNED, NORM, LINEAR */
    const float *bias;        /* NORM, LINEAR, ADD: NULL, or one for each element; NORM: of the segment */
    float scale;              /* EMBED, MUL, and ATTEND's (often 1 / sqrt(head)) */
    float epsilon;            /* NORM */
    float cap;                /* CAP; ATTEND: of the scores, 0: none */
    bool mean;                /* NORM: subtract the mean; without it it is an rms norm */
    bool plus_one;            /* NORM: the factor is 1 + weight */
    uint32_t segment;         /* NORM */
    enum gen_act act;         /* ACT, GATE */
    int32_t offset;           /* LEARNED: 0 or more */
    /* ROTATE: of heads of `head` elements. Element i turns with element i + half (or 2 i with 2 i + 1, where
     * `interleaved`). The angle's cosine is cosine[position * half + i]. */
    uint32_t head, half;
    bool interleaved;
    const float *cosine, *sine; /* [positions][half] */
    uint32_t positions;
    /*
     * ATTEND: a has heads * head elements, b kv_heads * head, c kv_heads * value_head. The network stores b
     * and c of each row in the cache's `layer`. Then row r, at position p, attends to its lane's positions
     * max(0, p - window + 1) … p. out has heads * value_head elements. heads is a multiple of kv_heads.
     */
    uint32_t layer, heads, kv_heads, value_head;
    uint32_t window;   /* 0: none */
    const float *sink; /* NULL, or [heads]: one more score in each softmax, of no value */
};

struct gen_program {
    struct gen_op *op;
    uint32_t ops;
    uint32_t *width; /* of each value */
    uint32_t values;
    int32_t logits; /* the value that is the result; it comes after PICK */
    uint32_t vocab, layers, max_position;
    uint32_t heads, head; /* of the cache: the most that a layer has */
    /* What keeps the weights; called by gen_program_free. NULL is allowed. */
    void (*release)(void *ctx);
    void *ctx;
    struct gen_program_memory *memory; /* gen_program_alloc's */
};

/* An empty program; NULL: no memory. */
struct gen_program *gen_program_new(void);
/* NULL is allowed. */
void gen_program_free(struct gen_program *p);
/* A new value of that width; its number, or -ENOMEM, -E2BIG. */
int32_t gen_program_value(struct gen_program *p, uint32_t width);
/* Appends an operator, of which everything is copied but what it points to. 0, -ENOMEM, -E2BIG. */
int gen_program_add(struct gen_program *p, const struct gen_op *op);
/* Memory, zeroed, that lives as long as the program: for tables and biases that an importer makes. NULL:
 * there is none. */
void *gen_program_alloc(struct gen_program *p, size_t bytes);

/*
 * Checks all of a program: numbers of values, widths, weights' shapes, the order of operators, one PICK, one
 * result, layers that are each attended to once. It also sets `layers`, `heads` and `head`. Networks take no
 * program that has not passed. It does not know how much memory a pointer leads to: that is the importer's
 * to check (gen_weight_bytes). 0; -ENOMEM; -EINVAL with the operator and the reason in gw_last_error().
 */
int gen_program_check(struct gen_program *p);

/* Bytes of a weight as it is stored, with scales and zeros. 0: its format or block is none that is known. */
uint64_t gen_weight_bytes(const struct gen_weight *w);
/* Element (n, k) as a float: the meaning of every format. Slow. */
float gen_weight_at(const struct gen_weight *w, uint32_t n, uint32_t k);

#endif
