/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes other than convolutions become launches; a depth-to-space goes into the convolution before it. */
#include <errno.h>
#include <string.h>

#include "src/model/gpu.h"

#define THREADS    256
#define MAX_BLOCKS 4096 /* kernels over elements walk on from there */

static uint32_t blocks_for(int32_t count)
{
    uint32_t n = ((uint32_t)count + THREADS - 1) / THREADS;

    return n < MAX_BLOCKS ? n : MAX_BLOCKS;
}

/* A kernel over the elements of an output, with inputs and output at these offsets of its arguments. */
static int elementwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gw_kernel *k,
                       const void *args, int32_t count, const size_t *in_at, uint32_t nin, size_t out_at)
{
    int rc = gwm_gpu_launch(p, k, blocks_for(count), THREADS, args);

    for (uint32_t i = 0; i < nin && !rc; i++) rc = gwm_gpu_fix(p, in_at[i], gwm_gpu_value(p, n->in[i]));
    return rc ? rc : gwm_gpu_fix(p, out_at, gwm_gpu_value(p, n->out));
}

static int unary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_unary_args a = {.act = n->act, .count = p->g->value[n->out].count};
    size_t in[] = {offsetof(struct gwm_unary_args, x)};

    return elementwise(p, n, &gwm_unary_kernel, &a, a.count, in, 1, offsetof(struct gwm_unary_args, y));
}

static int binary(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_binary_args a = {
        .bc = n->binary.bc, .act = n->act, .kind = n->binary.kind, .count = p->g->value[n->out].count};
    size_t in[] = {offsetof(struct gwm_binary_args, a), offsetof(struct gwm_binary_args, b)};

    return elementwise(p, n, &gwm_binary_kernel, &a, a.count, in, 2, offsetof(struct gwm_binary_args, y));
}

static int pool(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_pool_args a = {.win = n->pool.win,
                              .average = n->pool.average,
                              .count_pads = n->pool.count_pads,
                              .count = p->g->value[n->out].count};
    size_t in[] = {offsetof(struct gwm_pool_args, x)};

    return elementwise(p, n, &gwm_pool_kernel, &a, a.count, in, 1, offsetof(struct gwm_pool_args, y));
}

static int gemm(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_gemm *q = &n->gemm;
    struct gwm_gemm_args a = {.act = n->act,
                              .alpha = q->alpha,
                              .m = q->m,
                              .n = q->n,
                              .k = q->k,
                              .am = q->ta ? 1 : q->k,
                              .ak = q->ta ? q->m : 1,
                              .bk = q->tb ? 1 : q->n,
                              .bn = q->tb ? q->k : 1};
    int rc = gwm_gpu_launch(p, &gwm_gemm_kernel, (uint32_t)(q->m * q->n), 128, &a);

    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, a), gwm_gpu_value(p, n->in[0]));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, b), gwm_gpu_value(p, n->in[1]));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, y), gwm_gpu_value(p, n->out));
    if (!rc && q->bias)
        rc =
            gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, bias), gwm_gpu_const(p, q->bias, (size_t)q->n * 4));
    return rc;
}

static int softmax(struct gwm_gpu *p, const struct gwm_node *n)
{
    struct gwm_softmax_args a = {.s = n->softmax};
    int rc = gwm_gpu_launch(p, &gwm_softmax_kernel, (uint32_t)(a.s.outer * a.s.inner), 128, &a);

    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_softmax_args, x), gwm_gpu_value(p, n->in[0]));
    return rc ? rc : gwm_gpu_fix(p, offsetof(struct gwm_softmax_args, y), gwm_gpu_value(p, n->out));
}

static int move(struct gwm_gpu *p, const struct gwm_node *n)
{
    int rc = 0;

    if (n->op == GWM_PAD) {
        struct gwm_fill_args a = {.value = n->mv.pad_value, .count = p->g->value[n->out].count};
        rc = elementwise(p, n, &gwm_fill_kernel, &a, a.count, NULL, 0, offsetof(struct gwm_fill_args, y));
    }
    for (uint32_t i = 0; i < n->nin && !rc; i++) {
        struct gwm_move_args a = {.move = n->mv.move[i], .count = 1};
        for (int32_t d = 0; d < a.move.rank; d++) a.count *= a.move.dims[d];
        rc = gwm_gpu_launch(p, &gwm_move_kernel, blocks_for(a.count), THREADS, &a);
        if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_move_args, x), gwm_gpu_value(p, n->in[i]));
        if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_move_args, y), gwm_gpu_value(p, n->out));
    }
    return rc;
}

/* Is this move a depth-to-space of a picture of that shape? The block's side, or 1. */
static int32_t as_block(const struct gwm_move *m, const struct gwm_shape *x, bool *block_first)
{
    static const int32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};

    for (int32_t r = 2; r <= 8 && x->rank == 4; r++) {
        struct gwm_move want;
        int32_t c = x->d[1] / (r * r);
        if (x->d[1] % (r * r)) continue;
        gwm_move_permute(&want, (const int32_t[]){x->d[0], c, r, r, x->d[2], x->d[3]}, 6, crd);
        *block_first = false;
        if (!memcmp(&want, m, sizeof(want))) return r;
        gwm_move_permute(&want, (const int32_t[]){x->d[0], r, r, c, x->d[2], x->d[3]}, 6, dcr);
        *block_first = true;
        if (!memcmp(&want, m, sizeof(want))) return r;
    }
    return 1;
}

/* The one node that reads a root, if there is only one. */
static int sole_reader(const struct gwm_gpu *p, int root, int after)
{
    const struct gwm_graph *g = p->g;

    if (p->uses[root] != 1) return -1;
    for (int i = after + 1; i < g->nnode; i++)
        for (uint32_t k = 0; k < g->node[i].nin; k++)
            if (g->value[g->node[i].in[k]].root == root) return i;
    return -1;
}

/* A sum with a tensor of the same shape that is there already when node `at` runs; the tensor, or -1. */
static int sum_with(const struct gwm_gpu *p, const struct gwm_node *q, int root, int at)
{
    const struct gwm_graph *g = p->g;

    if (q->op != GWM_BINARY || q->binary.kind != GWM_ADD) return -1;
    int other = g->value[q->in[0]].root == root ? q->in[1] : q->in[0];
    if (!gwm_same_shape(&g->value[root].shape, &g->value[q->out].shape) ||
        !gwm_same_shape(&g->value[other].shape, &g->value[q->out].shape))
        return -1;
    int m = p->maker[g->value[other].root];
    return m < at ? other : -1;
}

/* A convolution and what follows it alone: a sum, an activation, a depth-to-space. */
static int conv(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    int at = (int)(n - g->node), q = sole_reader(p, n->out, at);
    struct gwm_store to = {.out = n->out, .add = -1, .act = n->act, .block = 1};

    if (q >= 0 && n->act.kind == GWM_ACT_NONE && (to.add = sum_with(p, &g->node[q], n->out, at)) >= 0) {
        p->done[q] = true;
        to.out = g->node[q].out;
        to.act = g->node[q].act;
        q = sole_reader(p, to.out, q);
    }
    if (q >= 0 && g->node[q].op == GWM_MOVE) {
        to.block = as_block(&g->node[q].mv.move[0], &g->value[n->out].shape, &to.block_first);
        if (to.block > 1) {
            p->done[q] = true;
            to.out = g->node[q].out;
        }
    }
    return gwm_gpu_conv(p, n, &to);
}

/* The kernels know floats, and products of single matrices. */
static bool lacks(const struct gwm_gpu *p, const struct gwm_node *n)
{
    bool ints = p->g->value[n->out].dtype != GWM_F32;

    for (uint32_t i = 0; i < n->nin; i++) ints = ints || p->g->value[n->in[i]].dtype != GWM_F32;
    return ints || (n->op == GWM_GEMM && n->gemm.products > 1) || (n->op == GWM_SOFTMAX && n->softmax.log);
}

int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n)
{
    if (lacks(p, n)) return -ENOTSUP;
    switch (n->op) {
    case GWM_CONV: return conv(p, n);
    case GWM_POOL: return pool(p, n);
    case GWM_GEMM: return gemm(p, n);
    case GWM_UNARY: return unary(p, n);
    case GWM_BINARY: return binary(p, n);
    case GWM_SOFTMAX: return softmax(p, n);
    case GWM_MOVE:
    case GWM_CONCAT:
    case GWM_PAD: return move(p, n);
    default: return -ENOTSUP;
    }
}
