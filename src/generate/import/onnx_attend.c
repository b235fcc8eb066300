/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, and the rotation of queries and keys, in the attention's node or before it. */
#include <errno.h>
#include <math.h>

#include "src/generate/import/onnx_graph.h"

struct onnx_tables {
    uint32_t half, positions;
    const float *cosine, *sine;
};

/* Tables of [positions, half], of inputs `at` and the next. */
static int onnx_read_tables(struct gen_onnx *o, uint32_t at, struct onnx_tables *t)
{
    struct gen_constant *c = gen_onnx_constant(o, at), *s = gen_onnx_constant(o, at + 1);

    if (!c || !s || c->rank != 2 || s->rank != 2 || c->dim[0] != s->dim[0] || c->dim[1] != s->dim[1] ||
        !c->count || c->dim[1] > GEN_PROGRAM_MAX_WIDTH || c->dim[0] > UINT32_MAX)
        return gwm_op_fail(&o->im, -ENOTSUP, "inputs %u and %u must be tables of cosines and sines", at,
                           at + 1);
    t->positions = (uint32_t)c->dim[0];
    t->half = (uint32_t)c->dim[1];
    t->cosine = gen_constant_floats(c, &o->b);
    t->sine = gen_constant_floats(s, &o->b);
    if (o->b.err) return o->b.err;
    if (!t->cosine || !t->sine) return gwm_op_fail(&o->im, -ENOTSUP, "the tables must be of floats");
    if (t->positions < o->positions) o->positions = t->positions;
    return 0;
}

static struct gen_part onnx_rotate(struct gen_onnx *o, struct gen_part a, const struct onnx_tables *t,
                                   uint32_t head, bool interleaved)
{
    struct gen_op op = {.kind = GEN_ROTATE,
                        .a = a,
                        .head = head,
                        .half = t->half,
                        .interleaved = interleaved,
                        .cosine = t->cosine,
                        .sine = t->sine,
                        .positions = t->positions};

    return gen_build_all(&o->b, gen_build_op(&o->b, &op, a.width));
}

static int onnx_rotary(struct gen_onnx *o)
{
    int64_t heads = 0, interleaved = 0;
    struct onnx_tables t;
    struct gen_part a;
    int err = gen_onnx_in(o, 0, &a, NULL);

    if (!err) err = gen_onnx_must(o, "is_packed_batching", 0);
    if (!err && (gwm_attr_int(&o->im, "num_heads", &heads) < 0 ||
                 gwm_attr_int(&o->im, "interleaved", &interleaved) < 0))
        err = -EBADMSG;
    if (!err && !gen_onnx_is(o, 1, GEN_ONNX_POSITIONS) && !gen_onnx_is(o, 1, GEN_ONNX_RUNTIME))
        err = gwm_op_fail(&o->im, -ENOTSUP, "input 1 must be position_ids");
    if (!err) err = onnx_read_tables(o, 2, &t);
    if (err) return err;
    if (heads < 0 || heads > a.width || (heads && a.width % heads))
        return gwm_op_fail(&o->im, -EBADMSG, "rows of %u elements do not fit %lld heads", a.width,
                           (long long)heads);
    a = onnx_rotate(o, a, &t, heads ? a.width / (uint32_t)heads : 2 * t.half, interleaved);
    return gen_onnx_rows(o, 0, a.value);
}

/* What the attributes of an attention say. */
struct onnx_attention {
    int64_t heads, kv_heads, rotary, interleaved, window, smooth;
    float scale, cap;
};

static int onnx_attention_read(struct gen_onnx *o, struct onnx_attention *a)
{
    *a = (struct onnx_attention){.window = -1};
    if (gwm_attr_int(&o->im, "num_heads", &a->heads) < 0 ||
        gwm_attr_int(&o->im, "kv_num_heads", &a->kv_heads) < 0 ||
        gwm_attr_int(&o->im, "do_rotary", &a->rotary) < 0 ||
        gwm_attr_int(&o->im, "rotary_interleaved", &a->interleaved) < 0 ||
        gwm_attr_int(&o->im, "local_window_size", &a->window) < 0 ||
        gwm_attr_int(&o->im, "smooth_softmax", &a->smooth) < 0 ||
        gwm_attr_float(&o->im, "scale", &a->scale) < 0 || gwm_attr_float(&o->im, "softcap", &a->cap) < 0)
        return -EBADMSG;
    if (a->heads < 1 || a->heads > 16384 || a->kv_heads < 1 || a->kv_heads > a->heads ||
        a->heads % a->kv_heads)
        return gwm_op_fail(&o->im, -EBADMSG, "num_heads is no multiple of kv_num_heads");
    if (a->window < -1 || a->window == 0 || a->window > INT32_MAX)
        return gwm_op_fail(&o->im, -ENOTSUP, "local_window_size %lld", (long long)a->window);
    return 0;
}

/* Queries, keys and values: three inputs, or one that holds all. */
static int onnx_qkv(struct gen_onnx *o, const struct onnx_attention *at, struct gen_op *op)
{
    bool packed = !o->in[1] && !o->in[2];
    struct gen_part all;
    int err = gen_onnx_in(o, 0, &all, NULL);

    op->heads = (uint32_t)at->heads;
    op->kv_heads = (uint32_t)at->kv_heads;
    if (err) return err;
    op->head = all.width / (packed ? op->heads + 2 * op->kv_heads : op->heads);
    op->value_head = op->head;
    if (!packed) {
        op->a = all;
        err = gen_onnx_in(o, 1, &op->b, NULL);
        return err ? err : gen_onnx_in(o, 2, &op->c, NULL);
    }
    op->a = gen_build_part(all.value, all.first, op->heads * op->head);
    op->b = gen_build_part(all.value, op->a.first + op->a.width, op->kv_heads * op->head);
    op->c = gen_build_part(all.value, op->b.first + op->b.width, op->b.width);
    return 0;
}

/* One more score in each softmax: a constant for each head, or 0. */
static int onnx_sink(struct gen_onnx *o, const struct onnx_attention *at, struct gen_op *op)
{
    if (o->im.nin > 11 && o->in[11]) return gen_onnx_floats(o, 11, op->heads, &op->sink);
    if (at->smooth == 1) op->sink = gen_build_alloc(&o->b, op->heads, sizeof(float));
    return o->b.err;
}

static int onnx_gqa(struct gen_onnx *o)
{
    struct gen_onnx_value present = {.kind = GEN_ONNX_RUNTIME};
    struct gen_op op = {.kind = GEN_ATTEND};
    struct onnx_attention at;
    struct onnx_tables t;
    int err = onnx_attention_read(o, &at);

    if (!err && (!gen_onnx_is(o, 3, GEN_ONNX_PAST) || !gen_onnx_is(o, 4, GEN_ONNX_PAST) || o->in[3]->values ||
                 !o->in[4]->values || o->in[3]->layer != o->in[4]->layer))
        err = gwm_op_fail(&o->im, -ENOTSUP, "inputs 3 and 4 must be the past keys and values of one layer");
    if (!err && o->im.nin > 10 && o->in[10])
        err = gwm_op_fail(&o->im, -ENOTSUP, "a bias of scores is not supported");
    if (!err) err = onnx_qkv(o, &at, &op);
    if (!err) err = onnx_sink(o, &at, &op);
    if (!err && !op.head) err = gwm_op_fail(&o->im, -EBADMSG, "its heads have no elements");
    if (!err && at.rotary) {
        err = onnx_read_tables(o, 7, &t);
        if (!err) op.a = onnx_rotate(o, op.a, &t, op.head, at.interleaved);
        if (!err) op.b = onnx_rotate(o, op.b, &t, op.head, at.interleaved);
    }
    if (err) return err;
    op.layer = o->in[3]->layer;
    op.scale = at.scale > 0 || at.scale < 0 ? at.scale : 1 / sqrtf((float)op.head);
    op.cap = at.cap;
    op.window = at.window > 0 ? (uint32_t)at.window : 0;
    err = gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, (uint64_t)op.heads * op.head));
    if (!err) err = gen_onnx_set(o, 1, &present);
    return err ? err : gen_onnx_set(o, 2, &present);
}

const struct gen_onnx_operator gen_onnx_attends[] = {
    {"RotaryEmbedding", 4, 4, "interleaved num_heads rotary_embedding_dim is_packed_batching ", onnx_rotary},
    {"GroupQueryAttention", 7, 12,
     "num_heads kv_num_heads scale do_rotary rotary_interleaved local_window_size softcap smooth_softmax "
     "sliding_window_cache ",
     onnx_gqa},
    {0},
};
