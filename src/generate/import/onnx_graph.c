/* SPDX-License-Identifier: Apache-2.0 */
/* Values of an ONNX decoder by name, and what operators ask of their inputs. */
#include "src/generate/import/onnx_graph.h"

#include <errno.h>
#include <stdlib.h>

int gen_onnx_define(struct gen_onnx *o, const char *name, const struct gen_onnx_value *v)
{
    int err = gwm_define(&o->im, name, (int)o->values);

    if (err) return err;
    o->value[o->values++] = *v; /* there is room for each name of the file */
    return 0;
}

int gen_onnx_set(struct gen_onnx *o, uint32_t i, const struct gen_onnx_value *v)
{
    const Onnx__NodeProto *n = o->im.node;

    if (o->b.err) return o->b.err;
    return i < n->n_output && *n->output[i] ? gen_onnx_define(o, n->output[i], v) : 0;
}

int gen_onnx_rows(struct gen_onnx *o, uint32_t i, int32_t value)
{
    struct gen_onnx_value v = {.kind = GEN_ONNX_ROWS, .part = gen_build_all(&o->b, value)};

    v.last = v.part.width;
    return gen_onnx_set(o, i, &v);
}

bool gen_onnx_is(const struct gen_onnx *o, uint32_t i, enum gen_onnx_kind kind)
{
    return i < o->im.nin && o->in[i] && o->in[i]->kind == kind;
}

struct gen_constant *gen_onnx_constant(struct gen_onnx *o, uint32_t i)
{
    return gen_onnx_is(o, i, GEN_ONNX_CONSTANT) ? &o->in[i]->constant : NULL;
}

/* Writes the operator that a value still lacks. */
static int onnx_write(struct gen_onnx *o, struct gen_onnx_value *v)
{
    struct gen_op op = {.kind = v->form == GEN_ONNX_ACT ? GEN_ACT : GEN_MUL,
                        .a = v->part,
                        .b.value = -1,
                        .act = v->act,
                        .scale = v->number};

    if (v->form == GEN_ONNX_SIGMOID || v->form == GEN_ONNX_TANH)
        return gwm_op_fail(&o->im, -ENOTSUP,
                           "Sigmoid and Tanh are supported in SiLU and in a cap of logits alone");
    v->part = gen_build_all(&o->b, gen_build_op(&o->b, &op, v->part.width));
    v->form = GEN_ONNX_PLAIN;
    return o->b.err;
}

int gen_onnx_in(struct gen_onnx *o, uint32_t i, struct gen_part *out, uint32_t *last)
{
    struct gen_onnx_value *v = i < o->im.nin ? o->in[i] : NULL;
    int err = 0;

    if (!v || v->kind != GEN_ONNX_ROWS)
        return gwm_op_fail(&o->im, -ENOTSUP, "input %u must be a value of the tokens' rows", i);
    if (!last && v->last != v->part.width)
        return gwm_op_fail(&o->im, -ENOTSUP, "input %u is seen as heads", i);
    if (v->form != GEN_ONNX_PLAIN) err = onnx_write(o, v);
    *out = v->part;
    if (last) *last = v->last;
    return err;
}

bool gen_onnx_number(struct gen_onnx *o, uint32_t i, float *out)
{
    struct gen_constant *c = gen_onnx_constant(o, i);
    const float *f = c && c->count == 1 ? gen_constant_floats(c, &o->b) : NULL;

    if (f) *out = *f;
    return f;
}

int gen_onnx_floats(struct gen_onnx *o, uint32_t i, uint32_t count, const float **out)
{
    struct gen_constant *c = gen_onnx_constant(o, i);

    *out = c && c->count == count ? gen_constant_floats(c, &o->b) : NULL;
    if (o->b.err || *out) return o->b.err;
    return gwm_op_fail(&o->im, -ENOTSUP, "input %u must be a constant of %u floats", i, count);
}

int gen_onnx_vector(struct gen_onnx *o, uint32_t i, uint32_t count, struct gen_weight *out)
{
    struct gen_constant *c = gen_onnx_constant(o, i);

    *out = (struct gen_weight){.n = 1, .k = count};
    if (!c || c->count != count || !gen_constant_format(c->type, &out->format))
        return gwm_op_fail(&o->im, -ENOTSUP, "input %u must be a constant of %u floats", i, count);
    out->data = gen_constant_aligned(c, &o->b, out->format == GEN_F32 ? 4 : 2);
    return o->b.err;
}

int gen_onnx_must(struct gen_onnx *o, const char *name, int64_t value)
{
    int64_t v = value;
    int err = gwm_attr_int(&o->im, name, &v);

    if (err < 0) return err;
    return v == value ? 0
                      : gwm_op_fail(&o->im, -ENOTSUP, "%s is %lld; supported is %lld", name, (long long)v,
                                    (long long)value);
}
