/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the program of a decoder layer by layer. */
#include "src/generate/import/decoder.h"

#include <errno.h>
#include <stdio.h>

#include <gpuwire/error.h>

int32_t gen_decoder_norm(struct gen_weights *w, struct gen_part a, const char *name, uint32_t segment,
                         const struct gen_norm *n)
{
    struct gen_op op = {.kind = GEN_NORM,
                        .a = a,
                        .segment = segment,
                        .epsilon = n->epsilon,
                        .mean = n->mean,
                        .plus_one = n->plus_one};
    char full[128];

    snprintf(full, sizeof(full), "%s.weight", name);
    op.weight = gen_weights_matrix(w, full, 1, segment);
    snprintf(full, sizeof(full), "%s.bias", name);
    if (n->mean) op.bias = gen_weights_floats(w, full, segment);
    return gen_build_op(w->b, &op, a.width);
}

int32_t gen_decoder_linear(struct gen_weights *w, struct gen_part a, const char *name, uint32_t n, bool bias)
{
    struct gen_weight weight;
    const float *add = NULL;
    char full[128];

    snprintf(full, sizeof(full), "%s.weight", name);
    weight = gen_weights_matrix(w, full, n, a.width);
    snprintf(full, sizeof(full), "%s.bias", name);
    if (bias) add = gen_weights_floats(w, full, n);
    return gen_build_linear(w->b, a, &weight, add);
}

static int32_t decoder_norm(const struct gen_decoder *d, struct gen_weights *w, int32_t x, const char *name)
{
    struct gen_norm n = {d->epsilon, d->mean, d->plus_one};

    return gen_decoder_norm(w, gen_build_all(w->b, x), name, d->hidden, &n);
}

/* Queries or keys: normed where the family does so, then turned. */
static struct gen_part decoder_turn(const struct gen_decoder *d, struct gen_weights *w, struct gen_part a,
                                    const char *norm, uint32_t layer)
{
    struct gen_norm n = {d->epsilon, false, d->plus_one};
    uint32_t segment = d->qk_segment == d->head ? d->head : a.width;

    if (d->qk_segment) a = gen_build_all(w->b, gen_decoder_norm(w, a, norm, segment, &n));
    if (d->unrotated[layer]) return a;
    const struct gen_rope *rope = d->two_ropes && d->windowed[layer] ? &d->local : &d->rope;
    return gen_build_all(w->b, gen_rope_rotate(rope, w->b, a, d->head));
}

static int32_t decoder_attention(const struct gen_decoder *d, struct gen_weights *w, int32_t x,
                                 uint32_t layer)
{
    struct gen_heads heads = {
        layer,           d->heads,    d->kv_heads, d->head, d->windowed[layer] ? d->window : 0,
        d->attend_scale, d->score_cap};
    uint32_t wide = d->heads * d->head, narrow = d->kv_heads * d->head;
    struct gen_part in = gen_build_all(w->b, x), q, k, v;

    if (d->packed_qkv) {
        int32_t all = gen_decoder_linear(w, in, "self_attn.qkv_proj", wide + 2 * narrow, d->bias_qkv);
        q = gen_build_part(all, 0, wide);
        k = gen_build_part(all, wide, narrow);
        v = gen_build_part(all, wide + narrow, narrow);
    } else {
        q = gen_build_all(w->b, gen_decoder_linear(w, in, "self_attn.q_proj", wide, d->bias_qkv));
        k = gen_build_all(w->b, gen_decoder_linear(w, in, "self_attn.k_proj", narrow, d->bias_qkv));
        v = gen_build_all(w->b, gen_decoder_linear(w, in, "self_attn.v_proj", narrow, d->bias_qkv));
    }
    q = decoder_turn(d, w, q, "self_attn.q_norm", layer);
    k = decoder_turn(d, w, k, "self_attn.k_norm", layer);
    int32_t seen = gen_build_attend(w->b, q, k, v, &heads);
    return gen_decoder_linear(w, gen_build_all(w->b, seen), d->o, d->hidden, d->bias_o);
}

static int32_t decoder_mlp(const struct gen_decoder *d, struct gen_weights *w, int32_t x)
{
    struct gen_part in = gen_build_all(w->b, x), gate, up;
    int32_t inner;

    if (d->packed_gate) {
        int32_t both = gen_decoder_linear(w, in, "mlp.gate_up_proj", 2 * d->inner, d->bias_mlp);
        gate = gen_build_part(both, 0, d->inner);
        up = gen_build_part(both, d->inner, d->inner);
        inner = gen_build_gate(w->b, gate, up, d->act);
    } else if (d->gated) {
        gate = gen_build_all(w->b, gen_decoder_linear(w, in, "mlp.gate_proj", d->inner, d->bias_mlp));
        up = gen_build_all(w->b, gen_decoder_linear(w, in, d->up, d->inner, d->bias_mlp));
        inner = gen_build_gate(w->b, gate, up, d->act);
    } else {
        up = gen_build_all(w->b, gen_decoder_linear(w, in, d->up, d->inner, d->bias_mlp));
        inner = gen_build_act(w->b, up, d->act);
    }
    return gen_decoder_linear(w, gen_build_all(w->b, inner), d->down, d->hidden, d->bias_mlp);
}

/* What a part makes, normed and scaled where the family does so, is added to x. */
static int32_t decoder_join(const struct gen_decoder *d, struct gen_weights *w, int32_t x, int32_t made,
                            const char *norm)
{
    if (d->after) made = decoder_norm(d, w, made, norm);
    if (d->part_scale < 1 || d->part_scale > 1) made = gen_build_scale(w->b, made, d->part_scale);
    return gen_build_add(w->b, x, made);
}

static int32_t decoder_layer(const struct gen_decoder *d, struct gen_weights *w, int32_t x, uint32_t layer)
{
    int32_t in = d->before ? decoder_norm(d, w, x, d->norm[0]) : x, made = decoder_attention(d, w, in, layer);

    x = decoder_join(d, w, x, made, d->norm[2]);
    if (!d->parallel) in = d->before ? decoder_norm(d, w, x, d->norm[1]) : x;
    return decoder_join(d, w, x, decoder_mlp(d, w, in), d->norm[3]);
}

static int32_t decoder_head(const struct gen_decoder *d, struct gen_weights *w, int32_t x,
                            const struct gen_weight *embed)
{
    int32_t logits;

    if (d->tied) {
        logits = gen_build_linear(w->b, gen_build_all(w->b, x), embed, NULL);
    } else {
        w->prefix[0] = '\0';
        logits = gen_decoder_linear(w, gen_build_all(w->b, x), "lm_head", d->vocab, d->bias_head);
    }
    if (d->logit_scale < 1 || d->logit_scale > 1) logits = gen_build_scale(w->b, logits, d->logit_scale);
    return d->logit_cap > 0 ? gen_build_cap(w->b, logits, d->logit_cap) : logits;
}

void gen_decoder_build(struct gen_decoder *d, struct gen_build *b, const struct gen_tensors *tensors)
{
    struct gen_weights w = {b, tensors, "model."};
    struct gen_op embed = {.kind = GEN_EMBED, .scale = d->embed_scale};
    const char *stem = gen_weights_have(&w, "embed_tokens.weight") ? "model." : "";

    b->p->vocab = d->vocab;
    b->p->max_position = d->context;
    gen_rope_tables(&d->rope, b, d->context);
    if (d->two_ropes) gen_rope_tables(&d->local, b, d->context);
    snprintf(w.prefix, sizeof(w.prefix), "%s", stem);
    embed.weight = gen_weights_matrix(&w, "embed_tokens.weight", d->vocab, d->hidden);
    int32_t x = gen_build_op(b, &embed, d->hidden);
    for (uint32_t i = 0; i < d->layers && !b->err; i++) {
        snprintf(w.prefix, sizeof(w.prefix), "%slayers.%u.", stem, i);
        x = decoder_layer(d, &w, x, i);
    }
    snprintf(w.prefix, sizeof(w.prefix), "%s", stem);
    x = gen_build_pick(b, decoder_norm(d, &w, x, d->last));
    if (!gen_tensors_find(tensors, "lm_head.weight")) d->tied = true; /* what is not there was tied */
    b->p->logits = decoder_head(d, &w, x, &embed.weight);
}
