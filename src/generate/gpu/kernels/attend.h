/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention to the pages of the cache. A kernel forms for each row and head the weighted sum of values, the
 * largest score, and the sum of weights. Scores are taken times log2(e): then weights are powers of two.
 * Where several blocks share a row's pages, gen_attend_join puts their parts together, in order.
 */
#ifndef GW_GENERATE_GPU_KERNELS_ATTEND_H
#define GW_GENERATE_GPU_KERNELS_ATTEND_H

#include "src/generate/gpu/kernels/mma.h"

#define ATTEND_LOG2E 1.44269504f

/* What a block or a warp works on: heads `head` and on of a group, for consecutive rows of a lane. */
struct gen_attend_place {
    uint32_t row, rows, slot, lane, kv, head, heads, split;
    uint32_t page, end, step; /* pages of the lane: every `step`-th of them */
};

/* The largest position that row `row` sees, and the first one. */
GW_DEV uint32_t gen_attend_first(const struct gen_attend_args *a, uint32_t position)
{
    return a->window && position >= a->window ? position - a->window + 1 : 0;
}

/* Sets heads and pages; `at` numbers groups, and splits within them. */
GW_DEV void gen_attend_range(const struct gen_attend_args *a, uint32_t at, struct gen_attend_place *p)
{
    uint32_t each = a->heads / a->kv_heads, part, pages, share;

    p->split = at % a->splits;
    at /= a->splits;
    part = at % a->groups;
    p->kv = at / a->groups;
    p->head = p->kv * each + part * GEN_GPU_GROUP;
    p->heads = each - part * GEN_GPU_GROUP;
    if (p->heads > GEN_GPU_GROUP) p->heads = GEN_GPU_GROUP;
    p->page = gen_attend_first(a, a->step->position[p->row]) / GEN_PAGE;
    p->end = a->step->position[p->row + p->rows - 1] / GEN_PAGE + 1;
    pages = p->end - p->page;
    share = (pages + a->splits - 1) / a->splits;
    p->page += p->split * share;
    if (p->page > p->end) p->page = p->end;
    if (p->end - p->page > share) p->end = p->page + share;
    p->step = 1;
}

/* The row of a slot. */
GW_DEV bool gen_attend_slot_row(const struct gen_attend_args *a, uint32_t slot, uint32_t *row)
{
    uint32_t rows = a->single ? *a->singles : a->step->rows;

    if (slot >= rows || slot >= a->slots) return false;
    *row = a->single ? a->single[slot] : slot;
    return a->step->lane[*row] != GEN_NO_LANE;
}

/* A block that has a row, or a part of its pages. */
GW_DEV bool gen_attend_row(const struct gen_attend_args *a, struct gen_attend_place *p)
{
    uint32_t each = a->kv_heads * a->groups * a->splits;

    p->slot = gw_block_idx() / each;
    p->rows = 1;
    if (!gen_attend_slot_row(a, p->slot, &p->row)) return false;
    p->lane = a->step->lane[p->row];
    gen_attend_range(a, gw_block_idx() % each, p);
    return true;
}

/* Elements of the cache before that of a page of the lane. */
GW_DEV uint64_t gen_attend_page(const struct gen_attend_args *a, const struct gen_attend_place *p,
                                uint32_t page, uint32_t kind)
{
    uint32_t number = a->step->page[(uint64_t)p->lane * a->step->lane_pages + page];

    return gen_cache_page(&a->cache, a->layer, kind, number) + (uint64_t)p->kv * GEN_PAGE * a->cache.width;
}

/* A product becomes a score; `position` is the row's, `at` the key's. */
GW_DEV float gen_attend_score(const struct gen_attend_args *a, float s, uint32_t position, uint32_t at)
{
    if (at > position || at < gen_attend_first(a, position)) return -INFINITY;
    s *= a->scale;
    if (a->cap != 0) s = tanhf(s / a->cap) * a->cap;
    return s * ATTEND_LOG2E;
}

/* 2 to the power of score - most; 0 where there is no score at all. */
GW_DEV float gen_attend_weight(float score, float most)
{
    return score == -INFINITY ? 0 : exp2f(score - most);
}

/* What a sum of values is multiplied with, when all weights are known. */
GW_DEV float gen_attend_by(const struct gen_attend_args *a, uint32_t head, float most, float all)
{
    float sink, top;

    if (!a->sink) return all > 0 ? 1 / all : 0;
    sink = a->sink[head] * ATTEND_LOG2E;
    top = sink > most ? sink : most;
    return gen_attend_weight(most, top) / (all * gen_attend_weight(most, top) + exp2f(sink - top));
}

/* Elements before those of a part. */
GW_DEV uint64_t gen_attend_part(const struct gen_attend_args *a, uint32_t split, uint32_t slot, uint32_t head)
{
    return ((uint64_t)split * a->slots + slot) * a->heads + head;
}

/* The numbers of a part: the largest score, and the sum of weights. */
GW_DEV float *gen_attend_numbers(const struct gen_attend_args *a, uint32_t split, uint32_t slot,
                                 uint32_t head)
{
    return a->partial + gen_attend_part(a, a->splits, 0, 0) * a->value_head +
           2 * gen_attend_part(a, split, slot, head);
}

/* Element `at` of a row's result: final, or a part's. */
GW_DEV void gen_attend_put(const struct gen_attend_args *a, const struct gen_attend_place *p, uint32_t at,
                           float sum, float by)
{
    if (a->splits > 1)
        a->partial[gen_attend_part(a, p->split, p->slot, 0) * a->value_head + at] = sum;
    else
        gen_row_put(&a->y, p->row, at, sum * by);
}

GW_DEV void gen_attend_put_numbers(const struct gen_attend_args *a, const struct gen_attend_place *p,
                                   uint32_t head, float most, float all)
{
    float *to = gen_attend_numbers(a, p->split, p->slot, head);

    to[0] = most, to[1] = all;
}

#endif
