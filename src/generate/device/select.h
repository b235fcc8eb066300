/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the first tokens end, most likely first, that are a number of tokens or have a weight together.
 * It does so without sorting: it tells their keys apart by eight bits at a time, from the highest on. All
 * threads of a block call each function, and get the same.
 */
#ifndef GW_GENERATE_DEVICE_SELECT_H
#define GW_GENERATE_DEVICE_SELECT_H

#include <stdbool.h>

#include "src/generate/device/weights.h"

#define GEN_DIGITS 256u

/* A block's threads share it. */
struct gen_scratch {
    uint64_t part[1024];                                           /* one for each thread */
    uint32_t low[GEN_DIGITS], high[GEN_DIGITS], count[GEN_DIGITS]; /* sums of tokens by digit */
    uint64_t key, mask, left;
    uint32_t done;
    uint32_t from, to; /* sampling.h: where the token lies */
    uint32_t tops;
};

/* A row of logits. */
struct gen_row {
    const float *logit;
    uint32_t vocab;
    float largest, by; /* of its logits; 1 / temperature */
};

GW_DEV uint64_t gen_row_weight(const struct gen_row *r, uint32_t token)
{
    return gen_weight(r->logit[token], r->largest, r->by);
}

enum gen_reduce { GEN_MAX, GEN_SUM };

/* The largest of all threads' values, or their sum. */
GW_DEV uint64_t gen_reduce(struct gen_scratch *x, enum gen_reduce how, uint64_t value)
{
    uint32_t me = gw_thread_idx(), n = gw_block_dim();
    x->part[me] = value;
    while (n > 1) {
        uint32_t half = (n + 1) / 2;
        gw_syncthreads(); /* the parts of the last round are there */
        if (me + half < n) {
            uint64_t other = x->part[me + half];
            if (how == GEN_SUM)
                x->part[me] += other;
            else if (other > x->part[me])
                x->part[me] = other;
        }
        n = half;
    }
    gw_syncthreads(); /* the result is there */
    value = x->part[0];
    gw_syncthreads(); /* all have it before the next use */
    return value;
}

/* Adds to a sum of 64 bits, by its halves: whatever the order of threads, carries are counted. */
GW_DEV void gen_digit_add(struct gen_scratch *x, uint32_t digit, uint64_t v)
{
    uint32_t old = gw_shared_add_u32(&x->low[digit], (uint32_t)v);
    uint32_t carry = (uint32_t)(old + (uint32_t)v) < old;
    if (v >> 32 || carry) gw_shared_add_u32(&x->high[digit], (uint32_t)(v >> 32) + carry);
    gw_shared_add_u32(&x->count[digit], 1);
}

GW_DEV uint64_t gen_digit_sum(const struct gen_scratch *x, uint32_t digit)
{
    return (uint64_t)x->high[digit] << 32 | x->low[digit];
}

/* Looks from the highest digit on where the tokens end. One thread. */
GW_DEV void gen_select_digit(struct gen_scratch *x, uint32_t shift)
{
    uint32_t d = GEN_DIGITS - 1;
    while (d && gen_digit_sum(x, d) < x->left) x->left -= gen_digit_sum(x, d--);
    x->key |= (uint64_t)d << shift;
    x->mask |= (uint64_t)0xff << shift;
    x->done = !shift || x->count[d] <= 1 || gen_digit_sum(x, d) == x->left;
}

/*
 * The key from which on the tokens weigh `left` together, or more, and no fewer of them do; `by_weight` 0:
 * from which on they are that number. Only tokens from `floor` on count; together they are or weigh `left` at
 * least.
 */
GW_DEV uint64_t gen_select(struct gen_scratch *x, const struct gen_row *r, bool by_weight, uint64_t left,
                           uint64_t floor)
{
    if (gw_thread_idx() == 0) {
        x->key = x->mask = 0;
        x->left = left;
    }
    for (uint32_t shift = 56;; shift -= 8) {
        for (uint32_t d = gw_thread_idx(); d < GEN_DIGITS; d += gw_block_dim())
            x->low[d] = x->high[d] = x->count[d] = 0;
        gw_syncthreads(); /* all is 0 before anyone adds */
        uint64_t key = x->key, mask = x->mask;
        for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
            uint64_t k = gen_token_key(r->logit[t], t);
            if (k < floor || (k & mask) != key) continue;
            gen_digit_add(x, (uint32_t)(k >> shift) & 0xff, by_weight ? gen_row_weight(r, t) : 1);
        }
        gw_syncthreads(); /* all is added */
        if (gw_thread_idx() == 0) gen_select_digit(x, shift);
        gw_syncthreads(); /* all see the digit */
        if (x->done) break;
    }
    uint64_t key = x->key > floor ? x->key : floor;
    gw_syncthreads(); /* all have it before the next use */
    return key;
}

#endif
