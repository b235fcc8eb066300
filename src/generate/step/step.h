/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step: one pass of the network over a number of rows. A row is one token at one position of one lane. Rows
 * of prompts and rows of lanes that make tokens may be in the same step.
 *
 * The scheduler writes the step before the network's stages run; the stage boundary orders the two. The
 * network then does three things, in this order:
 *
 *   1. for each layer it writes the rows' keys and values into the cache;
 *   2. row r attends to positions 0 … position[r] of its lane, its own among them;
 *   3. it writes the logits of the wanted rows, as floats.
 *
 * A row's results do not depend on the other rows, nor on how many there are. On CPU threads that holds bit
 * for bit; so a seed gives the same text whatever else runs.
 *
 * The executor that runs the loop owns all of this memory.
 */
#ifndef GW_GENERATE_STEP_STEP_H
#define GW_GENERATE_STEP_STEP_H

#include <stdint.h>

#include <gpuwire/dtype.h>
#include <gpuwire/exec.h>

#define GEN_PAGE      16u   /* tokens of a page of the cache */
#define GEN_MAX_LANES 256u  /* requests that are at work at a time, at most */
#define GEN_MAX_ROWS  1024u /* of a step, at most */
#define GEN_NO_LANE   0xffffffffu

/* Consecutive rows of a step that are consecutive tokens of one lane. */
struct gen_run {
    uint32_t row, rows; /* the first; how many */
    uint32_t lane;
    uint32_t position; /* of the first row; the lane's earlier tokens are in the cache */
};

/*
 * What the scheduler tells the network. The arrays have room for `max_rows` rows, `lanes` lanes and
 * `lane_pages` pages of each lane.
 *
 * The network of a variant runs `size` rows, of which `rows` are there. The others have token 0, position 0
 * and lane GEN_NO_LANE: the network computes something for them, and writes nothing into the cache.
 */
struct gen_step {
    uint32_t rows; /* 0: there is nothing to do; the loop ends */
    uint32_t size;
    uint32_t runs;
    uint32_t outs; /* wanted rows: `lanes` at most, and never more than `rows` */
    uint32_t max_rows, lanes, lane_pages;
    uint32_t failed;     /* CPU: the network's error, a positive errno: each lane of the step then fails */
    uint32_t *token;     /* [max_rows] */
    uint32_t *position;  /* [max_rows] */
    uint32_t *lane;      /* [max_rows] */
    struct gen_run *run; /* [max_rows], ascending by row */
    uint32_t *out;       /* [lanes]: the wanted rows, ascending. Logits i belong to row out[i]. */
    uint32_t *page;      /* [lanes][lane_pages]: the number of the page with positions GEN_PAGE * i and on */
};

/*
 * The cache of keys and values. Element (layer, kind, page, head, token, i) lies at
 *
 *   ((((layer * 2 + kind) * pages + page) * heads + head) * GEN_PAGE + token) * width + i
 *
 * kind 0 is keys, 1 is values; keys lie there after their rotation. `width` elements per head: the larger one
 * of keys' and values'. Layers may have fewer heads than `heads`.
 */
struct gen_cache {
    void *at;
    uint32_t dtype; /* GW_DTYPE_F32, GW_DTYPE_F16 or GW_DTYPE_BF16 */
    uint32_t layers, pages, heads, width;
};

/* Elements before a page's of a layer and kind. */
GW_FN uint64_t gen_cache_page(const struct gen_cache *c, uint32_t layer, uint32_t kind, uint32_t page)
{
    return (((uint64_t)layer * 2 + kind) * c->pages + page) * c->heads * GEN_PAGE * c->width;
}

/* Elements that each page takes in all layers. */
GW_FN uint64_t gen_cache_page_elements(const struct gen_cache *c)
{
    return (uint64_t)c->layers * 2 * c->heads * GEN_PAGE * c->width;
}

#endif
