/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2: learned positions, packed queries, keys and values, and weights that lie column by column: these are
 * turned when they are read.
 */
#include "src/generate/import/gpt2.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <gpuwire/error.h>

#include "src/generate/import/act.h"
#include "src/generate/import/decoder.h"

struct gpt2 {
    uint32_t vocab, hidden, inner, layers, heads, context;
    struct gen_norm norm;
    enum gen_act act;
    bool scaled, by_layer; /* scores by 1 / sqrt(head); and by 1 / (layer + 1) */
};

static int gpt2_read(const struct gen_json *c, struct gpt2 *g)
{
    int err;

    *g = (struct gpt2){.context = 1024, .norm = {1e-5f, true, false}, .act = GEN_GELU_TANH, .scaled = true};
    err = gen_json_u32(c, "vocab_size", 1, GEN_PROGRAM_MAX_WIDTH, &g->vocab);
    if (!err) err = gen_json_u32(c, "n_embd", 1, GEN_PROGRAM_MAX_WIDTH / 4, &g->hidden);
    if (!err) err = gen_json_u32(c, "n_layer", 1, GEN_DECODER_MAX_LAYERS, &g->layers);
    if (!err) err = gen_json_u32(c, "n_head", 1, 16384, &g->heads);
    g->inner = 4 * g->hidden;
    if (!err) err = gen_json_u32(c, "n_inner", 1, GEN_PROGRAM_MAX_WIDTH, &g->inner);
    if (!err) err = gen_json_u32(c, "n_positions", 1, GEN_MODEL_MAX_CONTEXT, &g->context);
    if (!err) err = gen_json_float(c, "layer_norm_epsilon", 0, 1, &g->norm.epsilon);
    if (!err) err = gen_act_read(c, "activation_function", &g->act);
    if (!err) err = gen_json_bool(c, "scale_attn_weights", &g->scaled);
    if (!err) err = gen_json_bool(c, "scale_attn_by_inverse_layer_idx", &g->by_layer);
    if (err) return err;
    if (!g->vocab || !g->hidden || !g->layers || !g->heads || g->hidden % g->heads)
        return gw_error(
            -EBADMSG,
            "%s: vocab_size, n_embd, n_layer or n_head is missing, or n_embd is no multiple of n_head",
            c->where);
    return 0;
}

static int32_t gpt2_linear(struct gen_weights *w, int32_t x, const char *name, uint32_t n)
{
    struct gen_part a = gen_build_all(w->b, x);
    char full[64];

    snprintf(full, sizeof(full), "%s.weight", name);
    struct gen_weight weight = gen_weights_turned(w, full, n, a.width);
    snprintf(full, sizeof(full), "%s.bias", name);
    return gen_build_linear(w->b, a, &weight, gen_weights_floats(w, full, n));
}

static int32_t gpt2_layer(const struct gpt2 *g, struct gen_weights *w, int32_t x, uint32_t layer)
{
    struct gen_heads heads = {
        .layer = layer, .heads = g->heads, .kv_heads = g->heads, .head = g->hidden / g->heads, .scale = 1};
    uint32_t wide = g->hidden;

    if (g->scaled) heads.scale = 1 / sqrtf((float)heads.head);
    if (g->by_layer) heads.scale /= (float)(layer + 1);
    int32_t in = gen_decoder_norm(w, gen_build_all(w->b, x), "ln_1", wide, &g->norm);
    int32_t all = gpt2_linear(w, in, "attn.c_attn", 3 * wide);
    int32_t seen = gen_build_attend(w->b, gen_build_part(all, 0, wide), gen_build_part(all, wide, wide),
                                    gen_build_part(all, 2 * wide, wide), &heads);
    x = gen_build_add(w->b, x, gpt2_linear(w, seen, "attn.c_proj", wide));
    in = gen_decoder_norm(w, gen_build_all(w->b, x), "ln_2", wide, &g->norm);
    int32_t up = gpt2_linear(w, in, "mlp.c_fc", g->inner);
    up = gen_build_act(w->b, gen_build_all(w->b, up), g->act);
    return gen_build_add(w->b, x, gpt2_linear(w, up, "mlp.c_proj", wide));
}

void gen_gpt2_build(const struct gen_json *config, const struct gen_tensors *tensors, struct gen_build *b)
{
    struct gen_weights w = {b, tensors, "transformer."};
    struct gen_op embed = {.kind = GEN_EMBED, .scale = 1}, learned = {.kind = GEN_LEARNED};
    const char *stem = gen_weights_have(&w, "wte.weight") ? "transformer." : "";
    struct gpt2 g;

    if ((b->err = gpt2_read(config, &g))) return;
    b->p->vocab = g.vocab;
    b->p->max_position = g.context;
    snprintf(w.prefix, sizeof(w.prefix), "%s", stem);
    embed.weight = gen_weights_matrix(&w, "wte.weight", g.vocab, g.hidden);
    learned.weight = gen_weights_matrix(&w, "wpe.weight", g.context, g.hidden);
    int32_t token = gen_build_op(b, &embed, g.hidden),
            x = gen_build_add(b, token, gen_build_op(b, &learned, g.hidden));
    for (uint32_t i = 0; i < g.layers && !b->err; i++) {
        snprintf(w.prefix, sizeof(w.prefix), "%sh.%u.", stem, i);
        x = gpt2_layer(&g, &w, x, i);
    }
    snprintf(w.prefix, sizeof(w.prefix), "%s", stem);
    x = gen_build_pick(b, gen_decoder_norm(&w, gen_build_all(b, x), "ln_f", g.hidden, &g.norm));
    b->p->logits = gen_build_linear(b, gen_build_all(b, x), &embed.weight, NULL);
}
