/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h: memory for a network, and steps at random. Some lanes go on by one token or by several, in any
 * order, and the step asks for the logits of some rows. The cache is full of NaN, so that a read of what
 * nothing has written shows.
 */
#ifndef GW_TESTS_GENERATE_GPU_RIG_H
#define GW_TESTS_GENERATE_GPU_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/generate/gpu/gpu.h"
#include "src/generate/program/reference.h"
#include "tests/rnd.h"

enum { RIG_LANES = 6, RIG_ROWS = 80, RIG_TOKENS = 96 }; /* tokens of a lane, at most */
#define RIG_PAGES (RIG_LANES * RIG_TOKENS / GEN_PAGE + 3)

struct rig {
    struct gw_exec *exec;
    struct gen_net net;
    struct gen_net_shape shape;
    struct gw_mem memory, cache, logits;
    struct gen_net_memory at;
    struct gen_step *step; /* as the host sees it */
    uint32_t *token, *position, *lane, *out, *page;
    struct gen_run *run;
    struct rnd rnd;
    uint32_t tokens, lanes, done[RIG_LANES]; /* of texts; lanes that have one */
    uint32_t text[RIG_LANES][RIG_TOKENS];
    float *right[RIG_LANES]; /* logits after each token */
    double worst;
    float *first; /* not NULL: the first lane's logits, that are kept, or (`again`) compared */
    bool again;
    uint32_t equal, different;
};

static void rig_must(int err, const char *what)
{
    if (err) fail_msg("%s: %d, %s", what, err, gw_last_error());
}

/* A part of the memory that both sides see. */
static void *rig_part(struct rig *r, size_t *at, size_t bytes, void **dev)
{
    void *host = (char *)r->memory.host + *at;

    *dev = (char *)r->memory.dev + *at;
    *at += (bytes + 63) / 64 * 64;
    return host;
}

static void rig_step(struct rig *r)
{
    void *dev;
    size_t at = 0;
    struct gen_step *s = r->step = rig_part(r, &at, sizeof(*s), &dev);

    r->at.step = dev;
    *s = (struct gen_step){.max_rows = RIG_ROWS, .lanes = RIG_LANES, .lane_pages = RIG_TOKENS / GEN_PAGE};
    r->token = rig_part(r, &at, RIG_ROWS * 4, &dev), s->token = dev;
    r->position = rig_part(r, &at, RIG_ROWS * 4, &dev), s->position = dev;
    r->lane = rig_part(r, &at, RIG_ROWS * 4, &dev), s->lane = dev;
    r->run = rig_part(r, &at, RIG_ROWS * sizeof(*r->run), &dev), s->run = dev;
    r->out = rig_part(r, &at, RIG_LANES * 4, &dev), s->out = dev;
    r->page = rig_part(r, &at, RIG_LANES * RIG_TOKENS / GEN_PAGE * 4, &dev), s->page = dev;
}

/* Pages in any order; the first three are no lane's. */
static void rig_pages(struct rig *r)
{
    for (uint32_t i = 0; i < RIG_PAGES - 3; i++) r->page[i] = i + 3;
    for (uint32_t i = RIG_PAGES - 4; i > 0; i--) {
        uint32_t k = rnd_below(&r->rnd, i + 1), page = r->page[i];
        r->page[i] = r->page[k], r->page[k] = page;
    }
}

static void rig_cache(struct rig *r)
{
    struct gen_cache *c = &r->at.cache;
    size_t bytes;
    void *none;

    *c = (struct gen_cache){.dtype = r->shape.dtype,
                            .layers = r->shape.layers,
                            .pages = RIG_PAGES,
                            .heads = r->shape.heads,
                            .width = r->shape.width};
    bytes = gen_cache_page_elements(c) * c->pages * gw_dtype_bytes(c->dtype);
    rig_must(gw_mem_alloc(r->exec, GW_MEM_DEVICE, bytes, &r->cache), "cache");
    c->at = r->cache.dev;
    none = malloc(bytes);
    memset(none, 0xff, bytes);
    rig_must(gw_copy_in(r->exec, c->at, none, bytes), "cache");
    free(none);
}

/* Texts of `tokens` tokens, and what the program makes of them. */
static void rig_texts(struct rig *r, const struct gen_program *p)
{
    for (uint32_t i = 0; i < r->lanes; i++) {
        for (uint32_t k = 0; k < r->tokens; k++) r->text[i][k] = rnd_below(&r->rnd, p->vocab);
        r->right[i] = malloc((size_t)r->tokens * p->vocab * sizeof(float));
        rig_must(gen_reference(p, r->text[i], r->tokens, r->shape.dtype, r->right[i]), "reference");
    }
}

static void rig_open(struct rig *r, const struct gen_program *p, struct gen_gpu_options *o, uint64_t seed)
{
    r->exec = o->exec;
    if (!r->lanes) r->lanes = RIG_LANES;
    r->rnd.state = seed * 2 + 1;
    o->max_rows = RIG_ROWS, o->lanes = RIG_LANES;
    rig_must(gen_gpu_net(p, o, &r->net), "gen_gpu_net");
    r->net.ops->shape(r->net.own, &r->shape);
    rig_must(gw_mem_alloc(r->exec, GW_MEM_HOST, 1 << 16, &r->memory), "memory");
    rig_step(r);
    rig_pages(r);
    rig_cache(r);
    r->at.logit_stride = r->shape.vocab + 3;
    rig_must(gw_mem_alloc(r->exec, GW_MEM_HOST, RIG_LANES * r->at.logit_stride * sizeof(float), &r->logits),
             "logits");
    r->at.logits = r->logits.dev;
    rig_must(r->net.ops->bind(r->net.own, r->exec, &r->at), "bind");
    rig_texts(r, p);
}

/* Up to `most` rows of lanes that have tokens left. With `keep`, lanes go on until that number is left.
 * Without it, they go on by one token or by several. */
static void rig_compose(struct rig *r, uint32_t most, uint32_t keep)
{
    struct gen_step *s = r->step;
    uint32_t first = rnd_below(&r->rnd, r->lanes);

    s->rows = s->runs = s->outs = 0;
    for (uint32_t i = 0; i < r->lanes && s->rows < most; i++) {
        uint32_t lane = (first + i) % r->lanes, left = r->tokens - r->done[lane], n;
        n = rnd_below(&r->rnd, 3) ? 1 : 1 + rnd_below(&r->rnd, most);
        if (keep) n = left > keep ? left - keep : 0;
        if (n > left) n = left;
        if (n > most - s->rows) n = most - s->rows;
        if (!n) continue;
        r->run[s->runs++] = (struct gen_run){s->rows, n, lane, r->done[lane]};
        for (uint32_t k = 0; k < n; k++, s->rows++) {
            r->token[s->rows] = r->text[lane][r->done[lane]];
            r->position[s->rows] = r->done[lane]++;
            r->lane[s->rows] = lane;
        }
        if (r->first || rnd_below(&r->rnd, 4)) r->out[s->outs++] = s->rows - 1;
    }
    for (uint32_t i = s->rows; i < RIG_ROWS; i++) r->token[i] = r->position[i] = 0, r->lane[i] = GEN_NO_LANE;
}

/* The distance of logits from the right ones, by the size of these. */
static double rig_distance(const struct rig *r, uint32_t i)
{
    uint32_t row = r->out[i], vocab = r->shape.vocab;
    const float *got = (const float *)r->logits.host + (size_t)i * r->at.logit_stride;
    const float *right = r->right[r->lane[row]] + (size_t)r->position[row] * vocab;
    double wrong = 0, all = 0;

    for (uint32_t k = 0; k < vocab; k++) {
        if (!isfinite(got[k])) return INFINITY;
        wrong += ((double)got[k] - right[k]) * ((double)got[k] - right[k]);
        all += (double)right[k] * right[k];
    }
    return sqrt(wrong / all);
}

static void rig_first(struct rig *r, uint32_t i)
{
    size_t bytes = r->shape.vocab * sizeof(float);
    const float *got = (const float *)r->logits.host + (size_t)i * r->at.logit_stride;
    float *at = r->first + (size_t)r->position[r->out[i]] * r->shape.vocab;

    if (!r->again)
        memcpy(at, got, bytes);
    else if (memcmp(at, got, bytes))
        r->different++;
    else
        r->equal++;
}

/* Looks at the logits of the step that has run. */
static void rig_check(struct rig *r)
{
    for (uint32_t i = 0; i < r->step->outs; i++) {
        double d = rig_distance(r, i);
        if (r->first && r->lane[r->out[i]] == 0) rig_first(r, i);
        if (!(d <= r->worst)) r->worst = d;
    }
}

/* One step by the kernels for `size` rows; false: there are no tokens left, or no more than `keep`. */
static bool rig_go(struct rig *r, uint32_t size, uint32_t keep)
{
    rig_compose(r, size, keep);
    if (!r->step->rows) return false;
    r->step->size = size;
    rig_must(gen_gpu_enqueue(&r->net, size, gw_exec_stream(r->exec)), "gen_gpu_enqueue");
    rig_must(gw_exec_sync(r->exec, gw_deadline(UINT64_C(600000000000))), "sync");
    rig_check(r);
    return true;
}

/* Whether pages of no lane are as they were. */
static bool rig_untouched(struct rig *r)
{
    const struct gen_cache *c = &r->at.cache;
    size_t bytes = (size_t)3 * c->heads * GEN_PAGE * c->width * gw_dtype_bytes(c->dtype);
    uint8_t *got = malloc(bytes);
    bool same = true;

    for (uint32_t i = 0; i < 2 * c->layers; i++) {
        uint64_t at = gen_cache_page(c, i / 2, i % 2, 0) * gw_dtype_bytes(c->dtype);
        rig_must(gw_copy_out(r->exec, got, (char *)c->at + at, bytes), "copy");
        for (size_t k = 0; k < bytes; k++) same &= got[k] == 0xff;
    }
    free(got);
    return same;
}

static void rig_close(struct rig *r)
{
    r->net.ops->free(r->net.own);
    gw_mem_free(&r->memory);
    gw_mem_free(&r->cache);
    gw_mem_free(&r->logits);
    for (uint32_t i = 0; i < RIG_LANES; i++) free(r->right[i]);
}

#endif
