/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the first tokens end, most likely first, that are a number of tokens or have a weight together.
 * It does so without sorting. One pass puts all tokens into 256 bins, by their distance from the largest
 * logit. The end lies in one of them. Only there are tokens told apart by their keys, eight bits at a time.
 *
 * All threads of a block call each function, and get the same.
 */
#ifndef GW_GENERATE_DEVICE_SELECT_H
#define GW_GENERATE_DEVICE_SELECT_H

#include <stdbool.h>

#include "src/generate/device/weights.h"

#define GEN_BINS 256u
#define GEN_LIST 1024u /* tokens of a bin that are put into a list; more are looked for in the row */

/* Sums of tokens, by bin or by digit. */
struct gen_bins {
    uint32_t low[GEN_BINS], high[GEN_BINS], count[GEN_BINS]; /* of the weights; how many */
};

/* A block's threads share it. */
struct gen_scratch {
    uint64_t part[1024]; /* one for each thread, or for each part of the row */
    uint64_t list[GEN_LIST];
    struct gen_bins bin, digit;
    uint64_t key, mask, left;
    uint32_t done, at, listed;
    uint32_t from, to; /* sampling.h: where the token lies */
};

/* A row of logits. */
struct gen_row {
    const float *logit;
    uint32_t vocab;
    float largest, by; /* of its logits; 1 / temperature */
};

/* The tokens from a key on. They are those of the bins before `bin`, and some of that. */
struct gen_kept {
    uint64_t key;
    uint32_t bin;
};

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

/* ---- bins ---- */

/* The bin of a logit: eight for each factor of e. Larger logits are never in a later one. */
GW_DEV uint32_t gen_bin_of(const struct gen_row *r, float logit)
{
    float d = (r->largest - logit) * r->by * 8;
    return d < GEN_BINS - 1 ? (uint32_t)d : GEN_BINS - 1;
}

/* Adds to a sum of 64 bits, by its halves: whatever the order of threads, carries are counted. */
GW_DEV void gen_bin_add(struct gen_bins *b, uint32_t i, uint64_t v)
{
    uint32_t old = gw_shared_add_u32(&b->low[i], (uint32_t)v);
    uint32_t carry = (uint32_t)(old + (uint32_t)v) < old;
    if (v >> 32 || carry) gw_shared_add_u32(&b->high[i], (uint32_t)(v >> 32) + carry);
    gw_shared_add_u32(&b->count[i], 1);
}

GW_DEV uint64_t gen_bin_sum(const struct gen_bins *b, uint32_t i)
{
    return (uint64_t)b->high[i] << 32 | b->low[i];
}

/* The sum of the first n. */
GW_DEV uint64_t gen_bins_sum(const struct gen_bins *b, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += gen_bin_sum(b, i);
    return sum;
}

GW_DEV void gen_bins_clear(struct gen_bins *b)
{
    for (uint32_t i = gw_thread_idx(); i < GEN_BINS; i += gw_block_dim())
        b->low[i] = b->high[i] = b->count[i] = 0;
}

/* Puts all tokens into bins. Returns the sum of their weights at temperature 1. */
GW_DEV uint64_t gen_fill_bins(struct gen_scratch *x, const struct gen_row *r)
{
    uint64_t sum = 0;
    gen_bins_clear(&x->bin);
    gw_syncthreads(); /* all is 0 before any thread adds */
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
        uint64_t w = gen_weight(r->logit[t], r->largest, r->by);
        gen_bin_add(&x->bin, gen_bin_of(r, r->logit[t]), w);
        sum += r->by == 1 ? w : gen_weight(r->logit[t], r->largest, 1);
    }
    return gen_reduce(x, GEN_SUM, sum); /* a barrier, too: all is added */
}

/* ---- the tokens of one bin ---- */

/* Puts the keys of a bin's tokens, from `floor` on, into the list, if there is room for the bin. */
GW_DEV void gen_list_bin(struct gen_scratch *x, const struct gen_row *r, uint32_t bin, uint64_t floor)
{
    if (gw_thread_idx() == 0) x->listed = 0;
    gw_syncthreads(); /* it is 0 before any thread adds */
    if (x->bin.count[bin] > GEN_LIST) return;
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
        if (gen_bin_of(r, r->logit[t]) != bin) continue;
        uint64_t key = gen_token_key(r->logit[t], t);
        if (key >= floor) x->list[gw_shared_add_u32(&x->listed, 1)] = key;
    }
    gw_syncthreads(); /* the list is there */
}

/* Number i of the bin's tokens, or of the row's where these did not fit into the list: 0 if it is none. */
GW_DEV uint64_t gen_item(const struct gen_scratch *x, const struct gen_row *r, uint32_t bin, uint32_t i)
{
    if (x->bin.count[bin] <= GEN_LIST) return x->list[i];
    return gen_bin_of(r, r->logit[i]) == bin ? gen_token_key(r->logit[i], i) : 0;
}

GW_DEV uint32_t gen_items(const struct gen_scratch *x, const struct gen_row *r, uint32_t bin)
{
    return x->bin.count[bin] <= GEN_LIST ? x->listed : r->vocab;
}

/* The weight of the tokens that are kept. Bin kept->bin is listed. */
GW_DEV uint64_t gen_kept_weight(struct gen_scratch *x, const struct gen_row *r, const struct gen_kept *kept)
{
    uint64_t sum = 0;
    for (uint32_t i = gw_thread_idx(); i < gen_items(x, r, kept->bin); i += gw_block_dim()) {
        uint64_t key = gen_item(x, r, kept->bin, i);
        if (key && key >= kept->key) sum += gen_weight(r->logit[gen_key_token(key)], r->largest, r->by);
    }
    return gen_reduce(x, GEN_SUM, sum) + gen_bins_sum(&x->bin, kept->bin);
}

/* ---- the end of the first tokens ---- */

/* Looks in which bin they end, but for those after `last`. One thread. */
GW_DEV void gen_select_bin(struct gen_scratch *x, bool by_weight, uint32_t last)
{
    uint32_t b = 0;
    for (; b < last; b++) {
        uint64_t has = by_weight ? gen_bin_sum(&x->bin, b) : x->bin.count[b];
        if (has >= x->left) break;
        x->left -= has;
    }
    x->at = b;
    x->key = x->mask = 0;
}

/* Looks from the highest digit on where they end. One thread. */
GW_DEV void gen_select_digit(struct gen_scratch *x, uint32_t shift)
{
    uint32_t d = GEN_BINS - 1;
    while (d && gen_bin_sum(&x->digit, d) < x->left) x->left -= gen_bin_sum(&x->digit, d--);
    x->key |= (uint64_t)d << shift;
    x->mask |= (uint64_t)0xff << shift;
    x->done = !shift || x->digit.count[d] <= 1 || gen_bin_sum(&x->digit, d) == x->left;
}

/* One digit of the end. */
GW_DEV void gen_select_pass(struct gen_scratch *x, const struct gen_row *r, bool by_weight, uint64_t floor,
                            uint32_t shift)
{
    gen_bins_clear(&x->digit);
    gw_syncthreads(); /* all is 0 before any thread adds */
    uint64_t key = x->key, mask = x->mask;
    for (uint32_t i = gw_thread_idx(); i < gen_items(x, r, x->at); i += gw_block_dim()) {
        uint64_t k = gen_item(x, r, x->at, i);
        if (!k || k < floor || (k & mask) != key) continue;
        gen_bin_add(&x->digit, (uint32_t)(k >> shift) & 0xff,
                    by_weight ? gen_weight(r->logit[gen_key_token(k)], r->largest, r->by) : 1);
    }
    gw_syncthreads(); /* all is added */
    if (gw_thread_idx() == 0) gen_select_digit(x, shift);
    gw_syncthreads(); /* all see the digit */
}

/* The lowest key of the bin's tokens from `floor` on; `floor` if there is none. Tokens of later bins have
 * lower ones. */
GW_DEV uint64_t gen_lowest(struct gen_scratch *x, const struct gen_row *r, uint64_t floor)
{
    uint64_t lowest = 0;
    for (uint32_t i = gw_thread_idx(); i < gen_items(x, r, x->at); i += gw_block_dim()) {
        uint64_t key = gen_item(x, r, x->at, i);
        if (key && key >= floor && ~key > lowest) lowest = ~key;
    }
    lowest = gen_reduce(x, GEN_MAX, lowest);
    return lowest ? ~lowest : floor;
}

/*
 * The first tokens that weigh `left` together, or more, and no fewer of them do; by_weight false: that number
 * of tokens. Only tokens of `of` count. The bins are filled; afterwards the last of the tokens' is listed.
 */
GW_DEV struct gen_kept gen_select(struct gen_scratch *x, const struct gen_row *r, bool by_weight,
                                  uint64_t left, const struct gen_kept *of)
{
    struct gen_kept kept;
    if (gw_thread_idx() == 0) {
        x->left = left;
        gen_select_bin(x, by_weight, of->bin);
    }
    gw_syncthreads(); /* all see the bin */
    gen_list_bin(x, r, x->at, of->key);
    for (uint32_t shift = 56;; shift -= 8) {
        gen_select_pass(x, r, by_weight, of->key, shift);
        if (x->done) break;
    }
    kept.bin = x->at;
    kept.key = gen_lowest(x, r, x->key > of->key ? x->key : of->key);
    return kept;
}

#endif
