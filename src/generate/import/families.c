/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json: what is common first, then what each family adds. */
#include "src/generate/import/families.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/import/act.h"
#include "src/generate/import/decoder.h"
#include "src/generate/import/gpt2.h"

#define FAMILY_MAX_HEAD  1024u
#define FAMILY_MAX_HEADS 16384u

/* A switch of the configuration that must be off. */
static int family_refuse(const struct gen_json *c, const char *key)
{
    bool on = false;
    int err = gen_json_bool(c, key, &on);

    return err ? err : on ? gw_error(-ENOTSUP, "%s: %s is not supported", c->where, key) : 0;
}

static int family_sizes(const struct gen_json *c, struct gen_decoder *d)
{
    int err = gen_json_u32(c, "vocab_size", 1, GEN_PROGRAM_MAX_WIDTH, &d->vocab);

    if (!err) err = gen_json_u32(c, "hidden_size", 1, GEN_PROGRAM_MAX_WIDTH, &d->hidden);
    if (!err) err = gen_json_u32(c, "intermediate_size", 1, GEN_PROGRAM_MAX_WIDTH / 2, &d->inner);
    if (!err) err = gen_json_u32(c, "num_hidden_layers", 1, GEN_DECODER_MAX_LAYERS, &d->layers);
    if (!err) err = gen_json_u32(c, "num_attention_heads", 1, FAMILY_MAX_HEADS, &d->heads);
    if (!err) err = gen_json_u32(c, "max_position_embeddings", 1, 1u << 30, &d->context);
    if (err) return err;
    if (!d->vocab || !d->hidden || !d->inner || !d->layers || !d->heads)
        return gw_error(-EBADMSG,
                        "%s: vocab_size, hidden_size, intermediate_size, num_hidden_layers or "
                        "num_attention_heads is missing",
                        c->where);
    d->kv_heads = d->heads;
    d->head = d->hidden / d->heads;
    err = gen_json_u32(c, "num_key_value_heads", 1, FAMILY_MAX_HEADS, &d->kv_heads);
    if (!err) err = gen_json_u32(c, "head_dim", 1, FAMILY_MAX_HEAD, &d->head);
    if (!err && (!d->head || d->head > FAMILY_MAX_HEAD))
        err = gw_error(-ENOTSUP, "%s: heads of %u elements; there must be 1 to %u", c->where, d->head,
                       FAMILY_MAX_HEAD);
    if (!err && gen_json_get(c, "quantization_config"))
        err = gw_error(-ENOTSUP,
                       "%s: quantization_config: quantized weights are not supported here; an "
                       "onnxruntime-genai folder may have them",
                       c->where);
    return err;
}

/* What most families have: llama's values, where the configuration says nothing. */
static int family_common(const struct gen_json *c, struct gen_decoder *d)
{
    int err;

    *d = (struct gen_decoder){
        .context = 2048,
        .epsilon = 1e-6f,
        .gated = true,
        .before = true,
        .act = GEN_SILU,
        .embed_scale = 1,
        .part_scale = 1,
        .logit_scale = 1,
        .o = "self_attn.o_proj",
        .up = "mlp.up_proj",
        .down = "mlp.down_proj",
        .last = "norm",
        .norm = {"input_layernorm", "post_attention_layernorm", "post_attention_layernorm",
                 "post_feedforward_layernorm"},
    };
    if ((err = family_sizes(c, d))) return err;
    d->attend_scale = 1 / sqrtf((float)d->head);
    err = gen_json_float(c, "rms_norm_eps", 0, 1, &d->epsilon);
    if (!err) err = gen_json_bool(c, "tie_word_embeddings", &d->tied);
    if (!err) err = gen_act_read(c, "hidden_act", &d->act);
    return err;
}

/* The base and the scaling, where old and new versions of transformers put them. `key`: the kind of layers,
 * by the name that new versions give it; NULL: there is one rope. */
static int family_rope(const struct gen_json *c, const struct gen_decoder *d, const char *key, double theta,
                       struct gen_rope *rope, uint32_t *context)
{
    struct gen_json at = {.at = NULL}, all;
    struct gen_rope_config from = {.theta = theta, .scaling = &at};
    double partial = 1;
    int err = gen_json_object(c, "rope_parameters", &all);

    if (!err && key)
        err = gen_json_object(&all, key, &at);
    else if (!err)
        at = all;
    if (err == -ENOENT) err = gen_json_object(c, "rope_scaling", &at);
    if (err == -ENOENT) err = 0;
    if (!err) err = gen_json_number(c, "partial_rotary_factor", 1e-3, 1, &partial);
    if (!err && at.at) err = gen_json_number(&at, "partial_rotary_factor", 1e-3, 1, &partial);
    if (!err && at.at) err = gen_json_number(&at, "rope_theta", 1.0001, 1e15, &from.theta);
    if (!err) err = gen_json_u32(c, "original_max_position_embeddings", 2, 1u << 30, &from.original);
    from.half = (uint32_t)(partial * d->head) / 2;
    return err ? err : gen_rope_init(rope, &from, context);
}

static int family_plain_rope(const struct gen_json *c, struct gen_decoder *d)
{
    double theta = 10000;
    int err = gen_json_number(c, "rope_theta", 1.0001, 1e15, &theta);

    return err ? err : family_rope(c, d, NULL, theta, &d->rope, &d->context);
}

/* Which layers have a window: "layer_types" says so, or else every layer but each `pattern`-th (0: all). */
static int family_windows(const struct gen_json *c, struct gen_decoder *d, uint32_t pattern)
{
    json_t *types = gen_json_get(c, "layer_types");
    int err = gen_json_u32(c, "sliding_window", 1, 1u << 30, &d->window);

    if (err) return err;
    if (types && json_array_size(types) != d->layers)
        return gw_error(-EBADMSG, "%s: layer_types: expected one for each of %u layers", c->where, d->layers);
    for (uint32_t i = 0; i < d->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (types && (!type || (strcmp(type, "sliding_attention") && strcmp(type, "full_attention"))))
            return gw_error(-ENOTSUP, "%s: layer_types: '%s' is not supported", c->where, type ? type : "?");
        d->windowed[i] = d->window && (types ? *type == 's' : !pattern || (i + 1) % pattern);
    }
    return 0;
}

static int family_llama(const struct gen_json *c, struct gen_decoder *d)
{
    bool bias = false;
    int err = gen_json_bool(c, "attention_bias", &bias);

    d->bias_qkv = d->bias_o = bias;
    return err ? err : gen_json_bool(c, "mlp_bias", &d->bias_mlp);
}

static int family_mistral(const struct gen_json *c, struct gen_decoder *d)
{
    if (!json_object_get(c->at, "sliding_window")) d->window = 4096; /* null means none */
    return family_windows(c, d, 0);
}

/* Windows are off but where use_sliding_window says so, and then of the layers from max_window_layers on. */
static int family_qwen_windows(const struct gen_json *c, struct gen_decoder *d)
{
    uint32_t from = d->layers;
    bool use = false;
    int err = gen_json_bool(c, "use_sliding_window", &use);

    if (!err) err = gen_json_u32(c, "max_window_layers", 0, 1u << 30, &from);
    if (err || !use) return err;
    if ((err = family_windows(c, d, 0))) return err;
    for (uint32_t i = 0; i < d->layers && i < from; i++)
        if (!gen_json_get(c, "layer_types")) d->windowed[i] = false;
    return 0;
}

static int family_qwen2(const struct gen_json *c, struct gen_decoder *d)
{
    d->bias_qkv = true;
    return family_qwen_windows(c, d);
}

static int family_qwen3(const struct gen_json *c, struct gen_decoder *d)
{
    bool bias = false;
    int err = gen_json_bool(c, "attention_bias", &bias);

    d->bias_qkv = d->bias_o = bias;
    d->qk_segment = d->head;
    return err ? err : family_qwen_windows(c, d);
}

static int family_gemma(const struct gen_json *c, struct gen_decoder *d)
{
    bool bias = false;
    int err = gen_json_bool(c, "attention_bias", &bias);

    d->bias_qkv = d->bias_o = bias;
    d->plus_one = true;
    if (!gen_json_get(c, "tie_word_embeddings")) d->tied = true;
    d->embed_scale = sqrtf((float)d->hidden);
    d->act = GEN_GELU_TANH; /* "gelu" in hidden_act means that, too */
    return err ? err : gen_act_read(c, "hidden_activation", &d->act);
}

/* What Gemma 2 and 3 add to Gemma. */
static int family_gemma2(const struct gen_json *c, struct gen_decoder *d)
{
    double scalar = d->head;
    int err = family_gemma(c, d);

    d->after = true;
    d->norm[1] = "pre_feedforward_layernorm";
    if (!err) err = gen_json_number(c, "query_pre_attn_scalar", 1e-3, 1e6, &scalar);
    if (!err) err = gen_json_float(c, "attn_logit_softcapping", 1e-3, 1e6, &d->score_cap);
    if (!err) err = gen_json_float(c, "final_logit_softcapping", 1e-3, 1e6, &d->logit_cap);
    d->attend_scale = (float)(1 / sqrt(scalar));
    return err ? err : family_windows(c, d, 2);
}

static int family_gemma3(const struct gen_json *c, struct gen_decoder *d)
{
    uint32_t pattern = 6, unused = d->context;
    double base = 10000, theta = 1e6;
    struct gen_json none = {.at = NULL};
    struct gen_rope_config local = {.half = d->head / 2, .scaling = &none};
    int err = family_gemma2(c, d);

    d->qk_segment = d->head;
    d->two_ropes = true;
    if (!err) err = family_refuse(c, "use_bidirectional_attention");
    if (!err) err = gen_json_u32(c, "sliding_window_pattern", 1, 1u << 20, &pattern);
    if (!err) err = family_windows(c, d, pattern);
    if (!err) err = gen_json_number(c, "rope_local_base_freq", 1.0001, 1e15, &base);
    if (!err) err = gen_json_number(c, "rope_theta", 1.0001, 1e15, &theta);
    if (!err) err = family_rope(c, d, "full_attention", theta, &d->rope, &d->context);
    if (err) return err;
    if (gen_json_get(c, "rope_parameters"))
        return family_rope(c, d, "sliding_attention", base, &d->local, &unused);
    local.theta = base;
    return gen_rope_init(&d->local, &local, &unused);
}

static int family_phi(const struct gen_json *c, struct gen_decoder *d)
{
    int err = family_refuse(c, "qk_layernorm");

    d->mean = d->parallel = true;
    d->bias_qkv = d->bias_o = d->bias_mlp = d->bias_head = true;
    d->gated = false;
    d->o = "self_attn.dense";
    d->up = "mlp.fc1";
    d->down = "mlp.fc2";
    d->last = "final_layernorm";
    return err ? err : gen_json_float(c, "layer_norm_eps", 0, 1, &d->epsilon);
}

static int family_phi3(const struct gen_json *c, struct gen_decoder *d)
{
    d->packed_qkv = d->packed_gate = true;
    return family_windows(c, d, 0);
}

/* Only norms of what the parts make, and of whole queries and keys. */
static int family_olmo2(const struct gen_json *c, struct gen_decoder *d)
{
    bool bias = false;
    int err = gen_json_bool(c, "attention_bias", &bias);

    d->bias_qkv = d->bias_o = bias;
    d->before = false;
    d->after = true;
    d->qk_segment = d->heads * d->head;
    return err;
}

static int family_granite(const struct gen_json *c, struct gen_decoder *d)
{
    float divisor = 1;
    int err = family_llama(c, d);

    if (!err) err = gen_json_float(c, "embedding_multiplier", 1e-6, 1e6, &d->embed_scale);
    if (!err) err = gen_json_float(c, "attention_multiplier", 1e-6, 1e6, &d->attend_scale);
    if (!err) err = gen_json_float(c, "residual_multiplier", 1e-6, 1e6, &d->part_scale);
    if (!err) err = gen_json_float(c, "logits_scaling", 1e-6, 1e6, &divisor);
    d->logit_scale = 1 / divisor;
    return err;
}

/* Llama, where some layers do not turn. */
static int family_smollm3(const struct gen_json *c, struct gen_decoder *d)
{
    json_t *turn = gen_json_get(c, "no_rope_layers"); /* 1: it does turn */
    uint32_t interval = 4;
    bool use = false;
    int err = family_llama(c, d);

    if (!err) err = gen_json_u32(c, "no_rope_layer_interval", 1, 1u << 20, &interval);
    if (!err) err = gen_json_bool(c, "use_sliding_window", &use);
    if (!err && turn && json_array_size(turn) != d->layers)
        err =
            gw_error(-EBADMSG, "%s: no_rope_layers: expected one for each of %u layers", c->where, d->layers);
    for (uint32_t i = 0; i < d->layers && !err; i++)
        d->unrotated[i] = turn ? !json_integer_value(json_array_get(turn, i)) : (i + 1) % interval == 0;
    return err || !use ? err : family_windows(c, d, 0);
}

static const struct {
    const char *type;
    int (*read)(const struct gen_json *c, struct gen_decoder *d);
} families[] = {
    {"llama", family_llama},        {"mistral", family_mistral}, {"qwen2", family_qwen2},
    {"qwen3", family_qwen3},        {"gemma", family_gemma},     {"gemma2", family_gemma2},
    {"gemma3_text", family_gemma3}, {"phi", family_phi},         {"phi3", family_phi3},
    {"olmo2", family_olmo2},        {"granite", family_granite}, {"smollm3", family_smollm3},
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

static int family_unknown(const struct gen_json *c, const char *type)
{
    char known[256] = "";
    size_t at = 0;

    for (size_t i = 0; i < FAMILIES; i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s, ", families[i].type);
    return gw_error(-ENOTSUP, "%s: model_type '%s' is not supported; known are %sgpt2", c->where, type,
                    known);
}

void gen_family_build(const struct gen_json *c, const struct gen_tensors *tensors, struct gen_build *b)
{
    struct gen_decoder d;
    char type[64] = "";
    size_t i = 0;

    if ((b->err = gen_json_text(c, "model_type", type, sizeof(type)))) return;
    if (!strcmp(type, "gpt2")) {
        gen_gpt2_build(c, tensors, b);
        return;
    }
    while (i < FAMILIES && strcmp(type, families[i].type)) i++;
    if (i == FAMILIES) b->err = family_unknown(c, type);
    if (!b->err) b->err = family_common(c, &d);
    if (!b->err) b->err = families[i].read(c, &d);
    if (!b->err) b->err = d.two_ropes ? 0 : family_plain_rope(c, &d);
    if (b->err) return;
    if (d.context > GEN_MODEL_MAX_CONTEXT) d.context = GEN_MODEL_MAX_CONTEXT;
    gen_decoder_build(&d, b, tensors);
}
