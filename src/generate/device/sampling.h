/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a token for each wanted row, as its request asks: wire.h says in what order things happen to the
 * logits. All threads of a block work on one row. The result depends on the row, the request and the number
 * of the token alone.
 */
#ifndef GW_GENERATE_DEVICE_SAMPLING_H
#define GW_GENERATE_DEVICE_SAMPLING_H

#include <math.h>

#include "src/generate/device/random.h"
#include "src/generate/device/select.h"
#include "src/generate/device/shared.h"

#define GEN_COLDEST 1e-6f /* a temperature below it is 0 */

/* ---- what the request does to the logits ---- */

/* Adds what it adds to some tokens. The first of several for one token adds all of them, in their order. */
GW_DEV void gen_add_bias(float *logit, const struct gen_top *bias, uint32_t n)
{
    for (uint32_t i = gw_thread_idx(); i < n; i += gw_block_dim()) {
        uint32_t k = 0;
        while (k < i && bias[k].token != bias[i].token) k++;
        if (k < i) continue;
        float x = logit[bias[i].token];
        for (; k < n; k++)
            if (bias[k].token == bias[i].token) x += bias[k].logprob;
        logit[bias[i].token] = x;
    }
}

/* Counts the tokens that the lane's row of counts does not have yet. */
GW_DEV void gen_count_tokens(const struct gen_args *a, uint32_t lane, const struct gen_job *j,
                             const uint32_t *token)
{
    struct gen_lane *l = &a->lane[lane];
    uint32_t *count = a->count + (uint64_t)lane * a->vocab, from = l->counted;
    if (!from)
        for (uint32_t t = gw_thread_idx(); t < a->vocab; t += gw_block_dim()) count[t] = 0;
    gw_syncthreads(); /* all is 0, and all have read `counted` */
    for (uint32_t i = from + gw_thread_idx(); i < j->prompt + j->made; i += gw_block_dim()) {
        if (i < j->prompt)
            gw_or_relaxed_u32_gpu(&count[token[i]], GEN_IN_PROMPT);
        else
            gw_add_relaxed_u32_gpu(&count[token[i]], 1);
    }
    if (gw_thread_idx() == 0) l->counted = j->prompt + j->made;
    gw_syncthreads(); /* all is counted */
}

GW_DEV void gen_penalize(const struct gen_args *a, const struct gen_job *j, const uint32_t *count,
                         float *logit)
{
    for (uint32_t t = gw_thread_idx(); t < a->vocab; t += gw_block_dim()) {
        uint32_t made = count[t] & ~GEN_IN_PROMPT;
        if (!count[t]) continue;
        float x = logit[t];
        x = x > 0 ? x / j->repetition : x * j->repetition;
        if (made) x -= j->presence + j->frequency * (float)made;
        logit[t] = x;
    }
}

GW_DEV void gen_adjust(const struct gen_args *a, uint32_t lane, float *logit)
{
    uint32_t job = a->lane[lane].job - 1;
    const struct gen_job *j = &a->job[job];
    if (j->biases) {
        gen_add_bias(logit, a->bias + (uint64_t)job * GEN_MAX_BIAS, j->biases);
        gw_syncthreads(); /* another thread changes the same logits next */
    }
    if (j->repetition != 1 || j->presence != 0 || j->frequency != 0) {
        gen_count_tokens(a, lane, j, a->token + (uint64_t)job * a->context);
        gen_penalize(a, j, a->count + (uint64_t)lane * a->vocab, logit);
        gw_syncthreads(); /* as above */
    }
    if (j->made >= j->min_tokens || !j->stops) return;
    /* Relaxed: the same token may be named twice. */
    for (uint32_t i = gw_thread_idx(); i < j->stops; i += gw_block_dim())
        gw_st_relaxed_u32_gpu(&logit[j->stop[i]], gen_float_bits(-INFINITY));
    gw_syncthreads(); /* as above */
}

/* ---- the choice ---- */

/* The key of the most likely token; 0: some logit is not a number, or none can be taken. */
GW_DEV uint64_t gen_best(struct gen_scratch *x, const struct gen_row *r)
{
    float most = -INFINITY;
    uint32_t at = 0;
    bool bad = false;
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
        float v = r->logit[t];
        bad |= !(v < INFINITY);
        if (v > most) { /* rarely: so a float alone is compared */
            most = v;
            at = t;
        }
    }
    uint64_t best = gen_reduce(x, GEN_MAX, bad ? UINT64_MAX : gen_token_key(most, at));
    return best == UINT64_MAX || best <= GEN_KEY_NONE ? 0 : best;
}

/* The tokens that weigh enough beside the most likely one. */
GW_DEV struct gen_kept gen_cut_min_p(struct gen_scratch *x, const struct gen_row *r, float min_p,
                                     const struct gen_kept *of)
{
    uint64_t least = (uint64_t)ceil((double)min_p * (double)GEN_WEIGHT_ONE), lowest = 0;
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
        uint64_t key = gen_token_key(r->logit[t], t);
        if (key < of->key || gen_weight(r->logit[t], r->largest, r->by) < least) continue;
        if (~key > lowest) lowest = ~key;
    }
    lowest = ~gen_reduce(x, GEN_MAX, lowest);
    struct gen_kept kept = {lowest, gen_bin_of(r, r->logit[gen_key_token(lowest)])};
    gen_list_bin(x, r, kept.bin, kept.key);
    return kept;
}

/* The tokens that may be taken. *weight: what they weigh. */
GW_DEV struct gen_kept gen_cut(struct gen_scratch *x, const struct gen_row *r, const struct gen_job *j,
                               uint64_t *weight)
{
    struct gen_kept kept = {0, GEN_BINS - 1};
    *weight = gen_bins_sum(&x->bin, GEN_BINS);
    if (j->top_k && j->top_k < r->vocab) {
        kept = gen_select(x, r, false, j->top_k, &kept);
        *weight = gen_kept_weight(x, r, &kept);
    }
    if (j->top_p < 1) {
        uint64_t part = (uint64_t)ceil((double)j->top_p * (double)*weight);
        kept = gen_select(x, r, true, part ? part < *weight ? part : *weight : 1, &kept);
        *weight = gen_kept_weight(x, r, &kept);
    }
    if (j->min_p > 0) {
        kept = gen_cut_min_p(x, r, j->min_p, &kept);
        *weight = gen_kept_weight(x, r, &kept);
    }
    return kept;
}

/* The bin in which the weight number x->left of those that are kept lies. One thread. */
GW_DEV void gen_draw_bin(struct gen_scratch *x, const struct gen_row *r, const struct gen_kept *kept)
{
    uint32_t b = 0;
    while (b < kept->bin && x->left >= gen_bin_sum(&x->bin, b)) x->left -= gen_bin_sum(&x->bin, b++);
    x->at = b;
    x->from = 0;
    x->to = r->vocab;
}

/* The weight of those tokens of bin x->at that are kept, from `from` to `to`. */
GW_DEV uint64_t gen_draw_sum(const struct gen_scratch *x, const struct gen_row *r,
                             const struct gen_kept *kept, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t t = from; t < to && t < r->vocab; t++) {
        if (gen_bin_of(r, r->logit[t]) != x->at || gen_token_key(r->logit[t], t) < kept->key) continue;
        sum += gen_weight(r->logit[t], r->largest, r->by);
    }
    return sum;
}

/* Finds the part in which the weight number x->left lies. One thread. */
GW_DEV void gen_draw_part(struct gen_scratch *x, uint32_t each)
{
    uint32_t k = 0;
    while (k < GEN_BINS - 1 && x->left >= x->part[k]) x->left -= x->part[k++];
    x->from += k * each;
    if (x->to > x->from + each) x->to = x->from + each;
}

/* Takes the token in which the weight number `at` of those that are kept lies. Bins come one after the other,
 * and in each its tokens by their numbers. The row is cut into 256 parts, again and again. */
GW_DEV uint32_t gen_draw(struct gen_scratch *x, const struct gen_row *r, const struct gen_kept *kept,
                         uint64_t at)
{
    if (gw_thread_idx() == 0) {
        x->left = at;
        gen_draw_bin(x, r, kept);
    }
    gw_syncthreads(); /* all see the range */
    while (x->to - x->from > 1) {
        uint32_t each = (x->to - x->from + GEN_BINS - 1) / GEN_BINS;
        for (uint32_t k = gw_thread_idx(); k < GEN_BINS; k += gw_block_dim()) {
            uint32_t from = x->from + k * each, to = from + each < x->to ? from + each : x->to;
            x->part[k] = gen_draw_sum(x, r, kept, from, to);
        }
        gw_syncthreads(); /* all parts are there */
        if (gw_thread_idx() == 0) gen_draw_part(x, each);
        gw_syncthreads(); /* all see the part */
    }
    uint32_t token = x->from;
    gw_syncthreads(); /* all have it before the next use */
    return token;
}

/* ---- what is said of it ---- */

/* The sum of all weights at temperature 1. */
GW_DEV uint64_t gen_sum(struct gen_scratch *x, const struct gen_row *r)
{
    uint64_t sum = 0;
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim())
        sum += gen_weight(r->logit[t], r->largest, 1);
    return gen_reduce(x, GEN_SUM, sum);
}

/* The n most likely tokens, in order. The bins are filled. log_sum: the logarithm of all weights' sum. */
GW_DEV void gen_tops(struct gen_scratch *x, const struct gen_row *r, struct gen_sample *s, uint32_t n,
                     float log_sum)
{
    struct gen_kept all = {GEN_KEY_NONE + 1, GEN_BINS - 1};
    struct gen_kept kept = gen_select(x, r, false, n < r->vocab ? n : r->vocab, &all);
    if (gw_thread_idx() == 0) x->listed = 0;
    gw_syncthreads(); /* the count is 0 before any thread adds */
    for (uint32_t t = gw_thread_idx(); t < r->vocab; t += gw_block_dim()) {
        uint64_t key = gen_token_key(r->logit[t], t);
        if (key >= kept.key) x->list[gw_shared_add_u32(&x->listed, 1)] = key;
    }
    gw_syncthreads(); /* all are there, in any order */
    for (uint32_t i = gw_thread_idx(); i < x->listed; i += gw_block_dim()) {
        uint32_t place = 0, token = gen_key_token(x->list[i]);
        for (uint32_t k = 0; k < x->listed; k++) place += x->list[k] > x->list[i];
        s->top[place].token = token;
        s->top[place].logprob = r->logit[token] - r->largest - log_sum;
    }
    if (gw_thread_idx() == 0) s->tops = x->listed;
    gw_syncthreads(); /* all have read the list before the next use */
}

/* The token, by chance. The bins are filled. */
GW_DEV uint32_t gen_choose(struct gen_scratch *x, const struct gen_row *r, const struct gen_job *j)
{
    uint64_t weight;
    struct gen_kept kept = gen_cut(x, r, j, &weight);
    return gen_draw(x, r, &kept, gen_random_below(gen_random(j->seed, j->made), weight));
}

/* Wanted row i. */
GW_DEV void gen_sample_row(const struct gen_args *a, uint32_t i)
{
    GW_SHARED(struct gen_scratch, x);
    uint32_t lane = a->work->out[i];
    const struct gen_job *j = &a->job[a->lane[lane].job - 1];
    struct gen_sample *s = &a->sample[i];
    float *logit = a->logits + (uint64_t)i * a->logit_stride;
    struct gen_row r = {logit, a->vocab, 0, 1};
    gen_adjust(a, lane, logit);
    uint64_t best = gen_best(x, &r);
    if (gw_thread_idx() == 0) {
        s->failed = !best;
        s->tops = 0;
    }
    if (!best) return;
    uint32_t token = gen_key_token(best);
    bool warm = j->temperature >= GEN_COLDEST;
    r.largest = logit[token];
    if (warm) r.by = 1 / j->temperature;
    uint64_t sum = warm || j->tops ? gen_fill_bins(x, &r) : gen_sum(x, &r);
    float log_sum = (float)log((double)sum / (double)GEN_WEIGHT_ONE);
    if (j->tops) gen_tops(x, &r, s, j->tops, log_sum);
    if (warm) token = gen_choose(x, &r, j);
    if (gw_thread_idx() == 0) {
        s->token = token;
        s->logprob = logit[token] - r.largest - log_sum;
    }
}

#endif
