/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: the ways to do one. */
#include <errno.h>
#include <stdio.h>

#include "src/model/gpu.h"

/* Adds up over a block for each element: for few rows. */
static int blocks(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_gemm *q = &n->gemm;
    struct gwm_gemm_args g = {.act = to->act,
                              .batch = q->batch,
                              .alpha = q->alpha,
                              .m = q->m,
                              .n = q->n,
                              .k = q->k,
                              .am = q->ta ? 1 : q->k,
                              .ak = q->ta ? q->m : 1,
                              .bk = q->tb ? 1 : q->n,
                              .bn = q->tb ? q->k : 1};
    uint32_t half = p->half ? GWM_HALF : 0;
    int a = gwm_gpu_in(p, n->in[0], half, false), b = gwm_gpu_in(p, n->in[1], half, false);
    int y = gwm_gpu_out(p, to->out, gwm_gpu_out_form(p, to->out) & ~GWM_LAST, false);
    int bias = q->bias ? gwm_gpu_static(p, q->bias, (size_t)q->n * sizeof(float), GW_DTYPE_F32) : 0;

    (void)setting;
    int rc = gwm_gpu_launch(p, &gwm_gemm_kernel, (uint32_t)p->g->value[to->out].count, 128, &g);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, a), a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, b), b);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, y), y);
    return rc || !q->bias ? rc : gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, bias), bias);
}

int gwm_gpu_gemm(struct gwm_gpu *p, const struct gwm_node *n)
{
    static const struct gwm_way ways[] = {
        {"blocks", 1, blocks}, {"gemm", GWM_LIB_SETTINGS, gwm_lib_gemm}, {0}};
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_store to = {.out = n->out, .add = -1, .act = n->act, .block = 1};
    char what[160];

    snprintf(what, sizeof(what), "gemm %d %d %d %d of %d %d %d %d to %d form %u %d%s", q->m, q->n, q->k,
             q->ta, q->tb, q->products, q->batch.rank, q->bias != NULL, to.act.kind,
             gwm_gpu_out_form(p, n->out), p->half, p->tf32 ? " tf32" : "");
    return gwm_gpu_pick(p, n, &to, what, ways);
}
