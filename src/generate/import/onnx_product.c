/* SPDX-License-Identifier: Apache-2.0 */
/* Products with weights, and rows out of tables. */
#include <errno.h>

#include "src/generate/import/onnx_graph.h"

/* A constant as a matrix. What the embedding has turned already is not turned again. */
static bool onnx_read_matrix(struct gen_onnx *o, const struct gen_constant *c, bool columns,
                             struct gen_weight *w)
{
    uint32_t n = columns != c->turned ? 1 : 0;

    if (c->data == o->table_of && c->rank == 2 && c->dim[0] != c->dim[1] && c->dim[n] == o->table.n &&
        c->dim[1 - n] == o->table.k) {
        *w = o->table;
        return true;
    }
    return gen_constant_matrix(c, &o->b, columns, w);
}

/* rows x constant (+ bias, of input 2) */
static int onnx_matrix(struct gen_onnx *o, bool columns)
{
    struct gen_constant *c = gen_onnx_constant(o, 1);
    const float *bias = NULL;
    struct gen_weight w;
    struct gen_part a;
    int err = gen_onnx_in(o, 0, &a, NULL);

    if (err) return err;
    if (!c || !onnx_read_matrix(o, c, columns, &w))
        return o->b.err ? o->b.err
                        : gwm_op_fail(&o->im, -ENOTSUP, "input 1 must be a constant matrix of floats");
    if (w.k != a.width)
        return gwm_op_fail(&o->im, -EBADMSG, "rows of %u elements do not fit a matrix for %u", a.width, w.k);
    if (o->im.nin > 2 && o->in[2]) err = gen_onnx_floats(o, 2, w.n, &bias);
    return err ? err : gen_onnx_rows(o, 0, gen_build_linear(&o->b, a, &w, bias));
}

static int onnx_matmul(struct gen_onnx *o)
{
    return onnx_matrix(o, true);
}

static int onnx_gemm(struct gen_onnx *o)
{
    float alpha = 1, beta = 1;
    int64_t turned = 0;
    int err = gen_onnx_must(o, "transA", 0), other = gwm_attr_int(&o->im, "transB", &turned);

    if (!err && other < 0) err = other;
    if (!err && (gwm_attr_float(&o->im, "alpha", &alpha) < 0 || gwm_attr_float(&o->im, "beta", &beta) < 0))
        err = -EBADMSG;
    if (!err && (alpha < 1 || alpha > 1 || beta < 1 || beta > 1))
        err = gwm_op_fail(&o->im, -ENOTSUP, "alpha and beta must be 1");
    return err ? err : onnx_matrix(o, !turned);
}

/* The scales of blocks, and their type. */
static int onnx_scales(struct gen_onnx *o, uint32_t i, uint64_t count, struct gen_weight *w)
{
    struct gen_constant *c = gen_onnx_constant(o, i);
    enum gen_format type;

    if (!c || c->count != count || !gen_constant_format(c->type, &type))
        return gwm_op_fail(&o->im, -EBADMSG, "input %u must be a constant of %llu floats", i,
                           (unsigned long long)count);
    w->scale_type = type;
    w->scale = gen_constant_aligned(c, &o->b, type == GEN_F32 ? 4 : 2);
    return o->b.err;
}

/* The zeros, where there are any: floats, one for each block, or bytes of two. */
static int onnx_zeros(struct gen_onnx *o, uint32_t i, uint64_t count, uint64_t bytes, struct gen_weight *w)
{
    struct gen_constant *c = gen_onnx_constant(o, i);
    enum gen_format type;

    if (i >= o->im.nin || !o->in[i]) return 0;
    if (c && gen_constant_format(c->type, &type) && type == w->scale_type && c->count == count) {
        w->zero_is_float = true;
        w->zero = gen_constant_aligned(c, &o->b, type == GEN_F32 ? 4 : 2);
        return o->b.err;
    }
    if (!c || (c->type != ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 && c->type != GEN_ONNX_UINT4) ||
        c->bytes != bytes)
        return gwm_op_fail(&o->im, -ENOTSUP,
                           "input %u must be %llu bytes of zeros, or a float for each block", i,
                           (unsigned long long)bytes);
    w->zero = c->data;
    return 0;
}

static int onnx_q4_numbers(struct gen_onnx *o, int64_t *n, int64_t *k, int64_t *block)
{
    int64_t bits = 4;

    if (gwm_attr_int(&o->im, "N", n) < 1 || gwm_attr_int(&o->im, "K", k) < 1 ||
        gwm_attr_int(&o->im, "block_size", block) < 1 || gwm_attr_int(&o->im, "bits", &bits) < 0)
        return gwm_op_fail(&o->im, -EBADMSG, "N, K or block_size is missing");
    if (bits != 4) return gwm_op_fail(&o->im, -ENOTSUP, "%lld bits; supported are 4", (long long)bits);
    if (*n < 1 || *n > GEN_PROGRAM_MAX_WIDTH || *k < 1 || *k > GEN_PROGRAM_MAX_WIDTH || *block < 16 ||
        *block > 256)
        return gwm_op_fail(&o->im, -ENOTSUP, "its N, K or block_size is out of range");
    return 0;
}

static int onnx_matmul_nbits(struct gen_onnx *o)
{
    struct gen_constant *c = gen_onnx_constant(o, 1);
    struct gen_weight w = {.format = GEN_Q4};
    int64_t n = 0, k = 0, block = 0;
    const float *bias = NULL;
    struct gen_part a;
    int err = onnx_q4_numbers(o, &n, &k, &block);

    if (!err) err = gen_onnx_in(o, 0, &a, NULL);
    if (err) return err;
    uint64_t blocks = (uint64_t)((k + block - 1) / block);
    w.n = (uint32_t)n;
    w.k = (uint32_t)k;
    w.block = (uint32_t)block;
    if (!c || c->type != ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 || c->bytes != w.n * blocks * (w.block / 2))
        return gwm_op_fail(&o->im, -EBADMSG,
                           "input 1 must be a constant of [N, blocks, block_size / 2] bytes");
    w.data = c->data;
    if (w.k != a.width)
        return gwm_op_fail(&o->im, -EBADMSG, "rows of %u elements do not fit a matrix for %u", a.width, w.k);
    if (o->im.nin > 4 && o->in[4]) return gwm_op_fail(&o->im, -ENOTSUP, "g_idx is not supported");
    err = onnx_scales(o, 2, w.n * blocks, &w);
    if (!err) err = onnx_zeros(o, 3, w.n * blocks, w.n * ((blocks + 1) / 2), &w);
    if (!err && o->im.nin > 5 && o->in[5]) err = gen_onnx_floats(o, 5, w.n, &bias);
    return err ? err : gen_onnx_rows(o, 0, gen_build_linear(&o->b, a, &w, bias));
}

/* Rows of a table by tokens or positions; the same of sizes makes nothing. */
static int onnx_gather(struct gen_onnx *o)
{
    struct gen_constant *c = gen_onnx_constant(o, 0);
    struct gen_op op = {.kind = GEN_EMBED, .scale = 1};
    int err;

    if (gen_onnx_is(o, 1, GEN_ONNX_POSITIONS))
        op.kind = GEN_LEARNED;
    else if (!gen_onnx_is(o, 1, GEN_ONNX_TOKENS))
        return gwm_op_fail(&o->im, -ENOTSUP, "rows are taken by input_ids or position_ids alone");
    if ((err = gen_onnx_must(o, "axis", 0))) return err;
    if (!c || !gen_constant_matrix(c, &o->b, false, &op.weight))
        return o->b.err ? o->b.err
                        : gwm_op_fail(&o->im, -ENOTSUP, "input 0 must be a constant matrix of floats");
    if (op.kind == GEN_LEARNED && op.weight.n < o->positions) o->positions = op.weight.n;
    if (op.kind == GEN_EMBED) {
        o->table_of = c->data;
        o->table = op.weight;
    }
    return gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, op.weight.k));
}

/* Signed quants q become unsigned ones, q + 8. */
static const void *onnx_unsigned(struct gen_onnx *o, const struct gen_constant *c)
{
    uint8_t *to = gen_build_alloc(&o->b, c->bytes, 1);

    for (uint64_t i = 0; to && i < c->bytes; i++) to[i] = c->data[i] ^ 0x88;
    return to;
}

static int onnx_gather_q4(struct gen_onnx *o)
{
    struct gen_constant *c = gen_onnx_constant(o, 0);
    struct gen_op op = {.kind = GEN_EMBED, .scale = 1, .weight.format = GEN_Q4};
    struct gen_weight *w = &op.weight;
    int64_t block = 128;
    int err = gen_onnx_must(o, "gather_axis", 0);

    if (!err) err = gen_onnx_must(o, "bits", 4);
    if (!err) err = gen_onnx_must(o, "quantize_axis", 1);
    if (!err && gwm_attr_int(&o->im, "block_size", &block) < 0) err = -EBADMSG;
    if (err) return err;
    if (!c || c->turned || c->rank != 2 || block < 16 || block > 256 || !gen_onnx_is(o, 1, GEN_ONNX_TOKENS))
        return gwm_op_fail(&o->im, -ENOTSUP, "its table, indices or block_size are not supported");
    uint64_t k = c->dim[1] * (c->type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 ? 2 : 1),
             blocks = k / (uint64_t)block;
    if (c->dim[0] > GEN_PROGRAM_MAX_WIDTH || k > GEN_PROGRAM_MAX_WIDTH || k % (uint64_t)block)
        return gwm_op_fail(&o->im, -ENOTSUP, "rows of its table must be whole blocks");
    if (c->type != ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 && c->type != GEN_ONNX_INT4 &&
        c->type != GEN_ONNX_UINT4)
        return gwm_op_fail(&o->im, -ENOTSUP, "its table must be of bytes of two quants, of int4 or of uint4");
    w->n = (uint32_t)c->dim[0];
    w->k = (uint32_t)k;
    w->block = (uint32_t)block;
    w->data = c->type == GEN_ONNX_INT4 ? onnx_unsigned(o, c) : c->data;
    err = onnx_scales(o, 2, w->n * blocks, w);
    if (!err && c->type == GEN_ONNX_INT4 && o->im.nin > 3 && o->in[3])
        err = gwm_op_fail(&o->im, -ENOTSUP, "zeros of int4 are not supported");
    if (!err) err = onnx_zeros(o, 3, w->n * blocks, w->n * ((blocks + 1) / 2), w);
    if (!err && !w->zero && c->type == GEN_ONNX_UINT4)
        w->zero = gen_build_alloc(&o->b, w->n, (blocks + 1) / 2);
    return err ? err : gen_onnx_rows(o, 0, gen_build_op(&o->b, &op, w->k));
}

const struct gen_onnx_operator gen_onnx_products[] = {
    {"MatMul", 2, 2, "", onnx_matmul},
    {"Gemm", 2, 3, "alpha beta transA transB ", onnx_gemm},
    {"MatMulNBits", 3, 6, "K N bits block_size accuracy_level ", onnx_matmul_nbits},
    {"Gather", 2, 2, "axis ", onnx_gather},
    {"GatherBlockQuantized", 3, 4, "bits block_size gather_axis quantize_axis ", onnx_gather_q4},
    {0},
};
