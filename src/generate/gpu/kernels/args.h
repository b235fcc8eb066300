/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a network on a GPU, and their arguments. Grids do not depend on the step, because graphs are
 * static: kernels read the step's numbers when they run, and blocks with no rows return at once.
 */
#ifndef GW_GENERATE_GPU_KERNELS_ARGS_H
#define GW_GENERATE_GPU_KERNELS_ARGS_H

#include <gpuwire/kernel.h>

#include "src/generate/step/step.h"

#define GEN_GPU_THREADS 128 /* of a block, in all kernels but those that say otherwise */
#define GEN_GPU_HEAD    256 /* elements of a head, at most */
#define GEN_GPU_GROUP   16  /* heads with the same keys that a block takes, at most */

/* Vectors in memory: row r has its first element at number r * stride. */
struct gen_rows {
    void *p;
    uint32_t type, stride; /* enum gw_dtype; elements */
};

/* How many rows there are: the step's, or its wanted ones. */
struct gen_count {
    const struct gen_step *step;
    uint32_t most, picked;
};

/*
 * A matrix of n rows and k columns in the GPU's memory. Rows are `row_bytes` apart. Q4: in each eight
 * elements number 2 i stands in bits 4 i and on, number 2 i + 1 in bits 4 i + 16 and on. So pairs of them
 * come out of a word with one mask. Each block has two numbers of scale_type: its scale, and what is added to
 * the quants times the scale, -zero * scale.
 */
struct gen_matrix {
    const void *data, *scale;
    const float *bias;                        /* or NULL */
    uint32_t format;                          /* enum gen_format of program.h */
    uint32_t n, k, shift, blocks, scale_type; /* Q4: `blocks` in a row, of 1 << shift columns */
    uint64_t row_bytes;
};

#define GEN_GPU_EACH 512 /* elements of a row that a block takes: `parts` blocks share a row */

struct gen_embed_args {
    struct gen_count count;
    struct gen_rows y;
    struct gen_matrix w;
    float scale;
    uint32_t parts, learned, offset; /* learned: the row is the position + offset, not the token */
};

struct gen_norm_args { /* a block for each segment of each row */
    struct gen_count count;
    struct gen_rows x, y, add;  /* add.p may be NULL */
    const float *weight, *bias; /* of a segment; bias may be NULL */
    uint32_t segment, segments, mean;
    float epsilon;
};

#define GEN_GPU_MATRICES 3 /* with the same input, that one kernel takes */
struct gen_linear_args {
    struct gen_count count;
    struct gen_rows x, add; /* add.p may be NULL: then there is one matrix; laid out as y[0] */
    struct gen_matrix w[GEN_GPU_MATRICES];
    struct gen_rows y[GEN_GPU_MATRICES];
    uint32_t matrices, tiles; /* of columns of y, in all matrices */
};

/* Turns heads, or copies them where half is 0. */
struct gen_turn {
    struct gen_rows x;
    const float *cosine, *sine;
    uint32_t heads, head, half, interleaved;
};

struct gen_place_args {
    struct gen_count count;
    struct gen_turn q, k, v; /* heads 0: none */
    struct gen_rows y;       /* of q */
    struct gen_cache cache;  /* of k and v */
    uint32_t layer, type;    /* of what q, k and v read */
    uint32_t width, parts;   /* elements of q, k and v together */
};

/* Rows of the step, of one lane, that a warp takes together. */
struct gen_tile {
    uint32_t row, rows, lane, pad;
};

/* Runs of one row are `single`: blocks share their pages, because they are long and there are few rows. */
struct gen_tiles_args { /* one block of GEN_GPU_THREADS */
    const struct gen_step *step;
    struct gen_tile *tile;
    uint32_t *tiles, *single, *singles;
    uint32_t each; /* rows of a tile, at most */
};

struct gen_attend_args {
    const struct gen_step *step;
    struct gen_cache cache;
    struct gen_rows q, y;
    /* With tiles each warp has one. Without them a row has `splits` blocks: each of the step, or of `single`,
     * where that is not NULL. */
    const struct gen_tile *tile;
    const uint32_t *tiles, *single, *singles;
    const float *sink; /* or NULL */
    float *partial;    /* splits > 1: [split][slot][head][value_head], then [split][slot][head][2] */
    uint32_t slots,    /* rows, or single ones, at most */
        layer, heads, kv_heads, head, value_head, window, splits;
    uint32_t groups; /* of at most GEN_GPU_GROUP heads, that share keys */
    float scale, cap;
};

enum gen_each_kind {
    GEN_EACH_ADD,
    GEN_EACH_BIAS,
    GEN_EACH_MUL,
    GEN_EACH_SCALE,
    GEN_EACH_ACT,
    GEN_EACH_GATE,
    GEN_EACH_CAP
};

struct gen_each_args {
    struct gen_count count;
    struct gen_rows a, b, y; /* b.p may be NULL */
    const float *bias;       /* in place of b, or NULL */
    uint32_t kind, act, width, parts;
    float number; /* what scales, or caps */
};

struct gen_pick_args {
    struct gen_count count;
    struct gen_rows x, y;
    uint32_t width, parts;
};

GW_KERNEL_DECLARE(gen_embed_kernel);
GW_KERNEL_DECLARE(gen_norm_kernel);
GW_KERNEL_DECLARE(gen_place_kernel);
GW_KERNEL_DECLARE(gen_each_kernel);
GW_KERNEL_DECLARE(gen_pick_kernel);
GW_KERNEL_DECLARE(gen_tiles_kernel);
/* Any types and shapes: a block for each GEN_GPU_SQUARE columns of GEN_GPU_SQUARE rows. */
#define GEN_GPU_SQUARE 32
GW_KERNEL_DECLARE(gen_linear_square);
/* Any cache and head of up to GEN_GPU_HEAD: a block for each row, group of heads, and split. */
GW_KERNEL_DECLARE(gen_attend_any);
GW_KERNEL_DECLARE(gen_attend_join); /* a block for each row and head */

/* On tensor cores, values of one type: number of columns in sixteens × rows in eights that a block takes. */
#define GEN_GPU_WARPS 8 /* of a block, at most: they share the columns of x among them */
#define GEN_LINEAR_DECLARE(name)                                                                             \
    GW_KERNEL_DECLARE(name##_1x1);                                                                           \
    GW_KERNEL_DECLARE(name##_1x2);                                                                           \
    GW_KERNEL_DECLARE(name##_2x4);                                                                           \
    GW_KERNEL_DECLARE(name##_4x8)
GEN_LINEAR_DECLARE(gen_linear_f16);
GEN_LINEAR_DECLARE(gen_linear_bf16);
GEN_LINEAR_DECLARE(gen_linear_f16_q4);
GEN_LINEAR_DECLARE(gen_linear_bf16_q4);

/* On tensor cores, by size of a head. With tiles each warp has one; without them a block has a row. */
#define GEN_ATTEND_DECLARE(name)                                                                             \
    GW_KERNEL_DECLARE(name##_16);                                                                            \
    GW_KERNEL_DECLARE(name##_64);                                                                            \
    GW_KERNEL_DECLARE(name##_80);                                                                            \
    GW_KERNEL_DECLARE(name##_96);                                                                            \
    GW_KERNEL_DECLARE(name##_128);                                                                           \
    GW_KERNEL_DECLARE(name##_256)
GEN_ATTEND_DECLARE(gen_attend_f16);
GEN_ATTEND_DECLARE(gen_attend_bf16);

#endif
