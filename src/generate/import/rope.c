/* SPDX-License-Identifier: Apache-2.0 */
/* The angles of rotary positions: plain ones, and the scalings that transformers knows. */
#include "src/generate/import/rope.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <gpuwire/error.h>

#define ROPE_PI 3.14159265358979323846

struct rope_scaling {
    const struct gen_json *json;
    double theta, factor;
    uint32_t half, original;
};

/* Llama 3: long waves are stretched, short ones stay, those between are mixed. */
static int rope_llama3(struct gen_rope *r, const struct rope_scaling *s)
{
    double low = 1, high = 4;
    int err = gen_json_number(s->json, "low_freq_factor", 1e-3, 1e6, &low);

    if (!err) err = gen_json_number(s->json, "high_freq_factor", 1e-3, 1e6, &high);
    if (!err && high <= low)
        err = gw_error(-EBADMSG, "%s: high_freq_factor must exceed low_freq_factor", s->json->where);
    for (uint32_t i = 0; i < s->half && !err; i++) {
        double wave = 2 * ROPE_PI / (double)r->inverse[i];
        double smooth = (s->original / wave - low) / (high - low);
        if (smooth < 0) smooth = 0;
        if (smooth > 1) smooth = 1;
        r->inverse[i] =
            (float)((1 - smooth) * (double)r->inverse[i] / s->factor + smooth * (double)r->inverse[i]);
    }
    return err;
}

/* The pair that turns that many times over the original context. */
static double rope_turns(const struct rope_scaling *s, double turns)
{
    return s->half * log(s->original / (turns * 2 * ROPE_PI)) / log(s->theta);
}

static double rope_mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static int rope_yarn(struct gen_rope *r, const struct rope_scaling *s)
{
    double fast = 32, slow = 1, attention = 0, mscale = 0, all = 0, low, high;
    bool truncate = true;
    int err = gen_json_number(s->json, "beta_fast", 1e-3, 1e6, &fast);

    if (!err) err = gen_json_number(s->json, "beta_slow", 1e-3, 1e6, &slow);
    if (!err) err = gen_json_number(s->json, "attention_factor", 1e-3, 1e3, &attention);
    if (!err) err = gen_json_number(s->json, "mscale", 0, 1e3, &mscale);
    if (!err) err = gen_json_number(s->json, "mscale_all_dim", 0, 1e3, &all);
    if (!err) err = gen_json_bool(s->json, "truncate", &truncate);
    if (err) return err;
    low = rope_turns(s, fast);
    high = rope_turns(s, slow);
    if (truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, 2.0 * s->half - 1);
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < s->half; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        r->inverse[i] =
            (float)((double)r->inverse[i] / s->factor * ramp + (double)r->inverse[i] * (1 - ramp));
    }
    if (attention <= 0)
        attention = mscale > 0 && all > 0 ? rope_mscale(s->factor, mscale) / rope_mscale(s->factor, all)
                                          : rope_mscale(s->factor, 1);
    r->scale = (float)attention;
    return 0;
}

/* Long rope has factors for texts within the original context, and others beyond it: a text that grows past
 * it would have to be computed again. So the context ends there. */
static int rope_long(struct gen_rope *r, const struct rope_scaling *s, uint32_t *context)
{
    json_t *factors = gen_json_get(s->json, "short_factor");
    double attention = s->factor <= 1 ? 1 : sqrt(1 + log(s->factor) / log(s->original));
    int err = gen_json_number(s->json, "attention_factor", 1e-3, 1e3, &attention);

    if (err) return err;
    if (json_array_size(factors) != s->half)
        return gw_error(-EBADMSG, "%s: short_factor: expected %u numbers", s->json->where, s->half);
    for (uint32_t i = 0; i < s->half; i++) {
        double f = json_number_value(json_array_get(factors, i));
        if (!(f >= 1e-3 && f <= 1e9))
            return gw_error(-EBADMSG, "%s: short_factor: expected numbers above 0", s->json->where);
        r->inverse[i] = (float)((double)r->inverse[i] / f);
    }
    r->scale = (float)attention;
    if (*context > s->original) *context = s->original;
    return 0;
}

static int rope_scale(struct gen_rope *r, struct rope_scaling *s, uint32_t *context)
{
    char type[32] = "default";
    int err = gen_json_text(s->json, "type", type, sizeof(type));
    bool given = gen_json_get(s->json, "factor");

    if (!err) err = gen_json_text(s->json, "rope_type", type, sizeof(type));
    if (!err) err = gen_json_number(s->json, "factor", 1e-3, 1e6, &s->factor);
    if (!err) err = gen_json_u32(s->json, "original_max_position_embeddings", 2, 1u << 30, &s->original);
    if (err || !strcmp(type, "default") || !strcmp(type, "mrope")) return err;
    if (!given) s->factor = (double)*context / s->original;
    if (!strcmp(type, "llama3")) return rope_llama3(r, s);
    if (!strcmp(type, "yarn")) return rope_yarn(r, s);
    if (!strcmp(type, "longrope") || !strcmp(type, "su")) return rope_long(r, s, context);
    if (!strcmp(type, "dynamic"))
        return 0; /* it changes angles beyond the context only, where we do not go */
    if (strcmp(type, "linear"))
        return gw_error(-ENOTSUP,
                        "%s: type '%s' is not supported; known are default, linear, dynamic, llama3, "
                        "yarn and longrope",
                        s->json->where, type);
    for (uint32_t i = 0; i < s->half; i++) r->inverse[i] = (float)((double)r->inverse[i] / s->factor);
    return 0;
}

int gen_rope_init(struct gen_rope *r, const struct gen_rope_config *from, uint32_t *context)
{
    struct rope_scaling s = {.json = from->scaling,
                             .theta = from->theta,
                             .half = from->half,
                             .factor = 1,
                             .original = from->original ? from->original : *context};

    if (!s.half || s.half > GEN_ROPE_MAX_HALF)
        return gw_error(-ENOTSUP, "%u of a head's elements turn; there must be 2 to %u", 2 * s.half,
                        2 * GEN_ROPE_MAX_HALF);
    *r = (struct gen_rope){.half = s.half, .scale = 1};
    for (uint32_t i = 0; i < s.half; i++) /* rounded where PyTorch rounds: far positions would show it */
        r->inverse[i] = 1.0f / (float)pow(s.theta, (double)((float)i / (float)s.half));
    return from->scaling->at ? rope_scale(r, &s, context) : 0;
}

void gen_rope_tables(struct gen_rope *r, struct gen_build *b, uint32_t positions)
{
    float *cosine = gen_build_alloc(b, (size_t)positions * r->half, sizeof(*cosine));
    float *sine = gen_build_alloc(b, (size_t)positions * r->half, sizeof(*sine));

    r->cosine = cosine;
    r->sine = sine;
    r->positions = positions;
    if (!cosine || !sine) return;
    for (uint32_t p = 0; p < positions; p++)
        for (uint32_t i = 0; i < r->half; i++) {
            double angle = (double)((float)p * r->inverse[i]); /* as a float, as everyone computes it */
            *cosine++ = (float)cos(angle) * r->scale;
            *sine++ = (float)sin(angle) * r->scale;
        }
}

int32_t gen_rope_rotate(const struct gen_rope *r, struct gen_build *b, struct gen_part a, uint32_t head)
{
    struct gen_op op = {
        .kind = GEN_ROTATE,
        .a = a,
        .head = head,
        .half = r->half,
        .cosine = r->cosine,
        .sine = r->sine,
        .positions = r->positions,
    };

    return gen_build_op(b, &op, a.width);
}
