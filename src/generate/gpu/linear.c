/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel computes a product: one of ours, or cuBLASLt's where it is there and there are many rows. */
#include <errno.h>
#include <stdbool.h>

#include "src/generate/gpu/inside.h"

/* A kernel on tensor cores, and what its blocks take: sixteens of columns, eights of rows. */
struct linear_way {
    const struct gw_kernel *kernel;
    uint32_t wide, deep;
};

#define LINEAR_WAYS(name)                                                                                    \
    {                                                                                                        \
        {&name##_1x1, 1, 1}, {&name##_1x2, 1, 2}, {&name##_2x4, 2, 4}, {&name##_4x8, 4, 8},                  \
    }

static const struct linear_way *linear_ways(const struct gen_gpu *g, const struct gen_linear_args *a)
{
    static const struct linear_way way[2][2][4] = {
        {LINEAR_WAYS(gen_linear_f16), LINEAR_WAYS(gen_linear_f16_q4)},
        {LINEAR_WAYS(gen_linear_bf16), LINEAR_WAYS(gen_linear_bf16_q4)},
    };

    return way[g->o.type == GW_DTYPE_BF16][a->w[0].format == GEN_Q4];
}

/* Lanes read 16 bytes of both factors at a time. */
static bool linear_fits(const struct gen_gpu *g, const struct gen_linear_args *a, const struct gen_item *it)
{
    return gw_dtype_bytes(g->o.type) == 2 && a->x.type == g->o.type && a->w[0].k % 8 == 0 &&
           a->x.stride % 8 == 0 && it->op[0]->a.first % 8 == 0;
}

static int linear_launch(struct gen_linear_args *a, const struct gw_kernel *kernel, uint32_t wide,
                         uint32_t deep, uint32_t block, struct gen_launches *l)
{
    a->tiles = 0;
    for (uint32_t i = 0; i < a->matrices; i++) a->tiles += (a->w[i].n + wide - 1) / wide;
    return gen_gpu_launch(l, kernel, (uint64_t)a->tiles * ((a->count.most + deep - 1) / deep), block, a);
}

/* Our kernels read weights at the speed of memory for that many rows. */
#define LINEAR_OWN_ROWS 16

/* Part i of the item by cuBLASLt. -ENOTSUP: it cannot do that. */
static int linear_library(struct gen_gpu *g, const struct gen_item *it, const struct gen_linear_args *a,
                          uint32_t i, struct gen_launches *l)
{
    const struct gen_op *op = it->op[i];
    size_t width = gw_dtype_bytes(g->o.type), work, start = op->a.first * width;
    struct gwm_lt_shape s = {.n = a->w[i].n,
                             .rows = a->count.most,
                             .k = a->w[i].k,
                             .ldx = a->x.stride,
                             .ldy = a->y[i].stride,
                             .x_start = start,
                             .type = g->o.type,
                             .y_type = a->y[i].type,
                             .bias = op->bias != NULL,
                             .sum = a->add.p != NULL};
    void *bias = NULL;
    struct gwm_call *call;
    int err;

    if (!g->lt || (a->count.most <= LINEAR_OWN_ROWS && width == 2)) return -ENOTSUP;
    if (a->w[i].format != (width == 4                  ? GEN_F32
                           : g->o.type == GW_DTYPE_F16 ? GEN_F16
                                                       : GEN_BF16) ||
        start % 16 || (s.bias && s.y_type != s.type) ||
        (s.sum && (a->add.stride != s.ldy || a->add.type != s.y_type || it->add.first)))
        return -ENOTSUP;
    err = gen_gpu_narrow(g, op->bias, op->weight.n, &bias);
    if (!err) err = gwm_lt_product(g->lt, &s, &call, &work);
    if (err) return err;
    void *address[GEN_GPU_ADDRESSES] = {
        (void *)a->w[i].data, (char *)a->x.p - start, bias, a->y[i].p, a->add.p, g->work.dev};
    return gen_gpu_call(l, call, address);
}

/* All parts by cuBLASLt, or none. */
static int linear_libraries(struct gen_gpu *g, const struct gen_item *it, const struct gen_linear_args *a,
                            struct gen_launches *l)
{
    uint32_t before = l->n;
    int err = 0;

    for (uint32_t i = 0; i < it->ops && !err; i++) err = linear_library(g, it, a, i, l);
    while (err && l->n > before) {
        struct gen_launch *q = &l->at[--l->n];
        q->call->free(q->call);
    }
    return err;
}

int gen_gpu_linear(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    struct gen_linear_args a = {
        .count = gen_gpu_count(g, it->out[0], size), .x = gen_gpu_rows(g, it->op[0]->a), .matrices = it->ops};
    int err = 0;

    for (uint32_t i = 0; i < it->ops && !err; i++) {
        const struct gen_op *op = it->op[i];
        a.y[i] = gen_gpu_out(g, it->out[i]);
        err = gen_gpu_matrix(g, &op->weight, &a.w[i]);
        if (!err) err = gen_gpu_floats(g, op->bias, op->weight.n, &a.w[i].bias);
    }
    if (err) return err;
    if (it->add.value >= 0) a.add = gen_gpu_rows(g, it->add);
    err = linear_libraries(g, it, &a, l);
    if (err != -ENOTSUP) return err;
    if (!linear_fits(g, &a, it))
        return linear_launch(&a, &gen_linear_square, GEN_GPU_SQUARE, GEN_GPU_SQUARE, GEN_GPU_THREADS, l);
    const struct linear_way *way = linear_ways(g, &a);
    while (way->deep * 8 < a.count.most && way->deep < 8) way++;
    return linear_launch(&a, way->kernel, way->wide * 16, way->deep * 8, 32 * GEN_GPU_WARPS, l);
}
