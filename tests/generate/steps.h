/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.h: sequences of tokens for tests of networks, cut into steps at random. A step mixes rows of prompts
 * and single rows of several lanes, as a scheduler would. The memory is the host's.
 */
#ifndef GW_TESTS_GENERATE_STEPS_H
#define GW_TESTS_GENERATE_STEPS_H

#include <stdlib.h>
#include <string.h>

#include "src/generate/net/net.h"
#include "src/generate/program/number.h"
#include "tests/rnd.h"

struct steps {
    struct gen_step step;
    struct gen_net_memory memory;
    uint32_t lanes, length; /* sequences, one of each lane, of that number of tokens */
    uint32_t *token;        /* [lanes][length] */
    uint32_t *at;           /* [lanes]: tokens that have been in a step */
    float *logits;          /* [lanes][length][vocab], of the rows that steps made some for; NaN elsewhere */
    uint32_t vocab;
    struct rnd rnd;
};

static void *steps_alloc(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p) abort();
    return p;
}

/* Memory for steps of max_rows rows; each lane's pages lie anywhere, and the cache is full of NaN. */
static void steps_new(struct steps *s, const struct gen_net_shape *shape, uint32_t lanes, uint32_t length,
                      uint64_t seed)
{
    uint32_t pages = (length + GEN_PAGE - 1) / GEN_PAGE, max_rows = shape->size[shape->sizes - 1];
    uint32_t all = lanes * pages + 3;
    uint32_t *order = steps_alloc(all, sizeof(*order));
    struct gen_cache *c = &s->memory.cache;
    size_t bytes;

    memset(s, 0, sizeof(*s));
    s->rnd = (struct rnd){seed * 2 + 1};
    s->lanes = s->step.lanes = lanes;
    s->length = length;
    s->vocab = shape->vocab;
    s->step.max_rows = max_rows;
    s->step.lane_pages = pages;
    s->step.token = steps_alloc(max_rows, 4);
    s->step.position = steps_alloc(max_rows, 4);
    s->step.lane = steps_alloc(max_rows, 4);
    s->step.run = steps_alloc(max_rows, sizeof(*s->step.run));
    s->step.out = steps_alloc(lanes, 4);
    s->step.page = steps_alloc((size_t)lanes * pages, 4);
    *c = (struct gen_cache){.dtype = shape->dtype, .layers = shape->layers, .pages = all};
    c->heads = shape->heads;
    c->width = shape->width;
    bytes = gen_cache_page_elements(c) * all * gw_dtype_bytes(c->dtype);
    c->at = memset(steps_alloc(bytes, 1), 0xff, bytes);
    s->memory.step = &s->step;
    s->memory.logit_stride = shape->vocab + 3;
    s->memory.logits = steps_alloc((size_t)lanes * s->memory.logit_stride, sizeof(float));
    for (uint32_t i = 0; i < all; i++) order[i] = i;
    for (uint32_t i = all; i-- > 1;) {
        uint32_t k = rnd_below(&s->rnd, i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    memcpy(s->step.page, order, (size_t)lanes * pages * 4);
    free(order);
    s->token = steps_alloc((size_t)lanes * length, 4);
    for (size_t i = 0; i < (size_t)lanes * length; i++) s->token[i] = rnd_below(&s->rnd, s->vocab);
    s->at = steps_alloc(lanes, 4);
    s->logits = steps_alloc((size_t)lanes * length * s->vocab, sizeof(float));
    memset(s->logits, 0xff, (size_t)lanes * length * s->vocab * sizeof(float));
}

static void steps_free(struct steps *s)
{
    free(s->step.token);
    free(s->step.position);
    free(s->step.lane);
    free(s->step.run);
    free(s->step.out);
    free(s->step.page);
    free(s->memory.cache.at);
    free(s->memory.logits);
    free(s->token);
    free(s->at);
    free(s->logits);
}

/* Adds the lane's next `rows` tokens to the step, which then makes the logits of the last of them. */
static void steps_take(struct steps *s, uint32_t lane, uint32_t rows)
{
    struct gen_run *run = s->step.run + s->step.runs++;

    *run = (struct gen_run){.row = s->step.rows, .rows = rows, .lane = lane, .position = s->at[lane]};
    for (uint32_t i = 0; i < rows; i++) {
        s->step.token[run->row + i] = s->token[(size_t)lane * s->length + s->at[lane] + i];
        s->step.position[run->row + i] = s->at[lane] + i;
        s->step.lane[run->row + i] = lane;
    }
    s->at[lane] += rows;
    s->step.rows += rows;
    s->step.out[s->step.outs++] = s->step.rows - 1;
}

/* The next step: some lanes, each with up to most_rows rows. `alone`: one row of one lane. Rows that are left
 * up to max_rows are empty. Says whether there is one. */
static bool steps_next(struct steps *s, uint32_t most_rows, bool alone)
{
    uint32_t first = rnd_below(&s->rnd, s->lanes), max_rows = s->step.max_rows;

    s->step.rows = s->step.runs = s->step.outs = 0;
    for (uint32_t i = 0; i < s->lanes; i++) {
        uint32_t lane = (first + i) % s->lanes, left = s->length - s->at[lane], rows = most_rows;

        if (!left || (s->step.rows && (alone || rnd_below(&s->rnd, 4) == 0))) continue;
        if (rows > left) rows = left;
        if (rows > max_rows - s->step.rows) rows = max_rows - s->step.rows;
        if (!rows) break;
        steps_take(s, lane, alone || rnd_below(&s->rnd, 3) == 0 ? 1 : 1 + rnd_below(&s->rnd, rows));
    }
    for (uint32_t i = s->step.rows; i < max_rows; i++) {
        s->step.token[i] = s->step.position[i] = 0;
        s->step.lane[i] = GEN_NO_LANE;
    }
    s->step.size = max_rows;
    return s->step.rows;
}

/* Keeps the logits of the step that has run. */
static void steps_keep(struct steps *s)
{
    for (uint32_t i = 0; i < s->step.outs; i++) {
        uint32_t row = s->step.out[i];
        size_t at = (size_t)s->step.lane[row] * s->length + s->step.position[row];

        memcpy(s->logits + at * s->vocab, s->memory.logits + (size_t)i * s->memory.logit_stride,
               s->vocab * sizeof(float));
    }
}

#endif
