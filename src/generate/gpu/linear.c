/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel computes a product. */
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
    if (!linear_fits(g, &a, it))
        return linear_launch(&a, &gen_linear_square, GEN_GPU_SQUARE, GEN_GPU_SQUARE, GEN_GPU_THREADS, l);
    const struct linear_way *way = linear_ways(g, &a);
    while (way->deep * 8 < a.count.most && way->deep < 8) way++;
    return linear_launch(&a, way->kernel, way->wide * 16, way->deep * 8, 32 * GEN_GPU_WARPS, l);
}
