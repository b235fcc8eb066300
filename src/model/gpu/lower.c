/* SPDX-License-Identifier: Apache-2.0 */
/* A node becomes launches. A convolution takes along what follows it alone: a sum, an activation, a
 * depth-to-space. */
#include <errno.h>
#include <string.h>

#include "src/model/gpu/lower.h"

#include "src/model/gpu/arith.h"
#include "src/model/gpu/attention.h"
#include "src/model/gpu/conv.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/move.h"
#include "src/model/gpu/plain.h"
#include "src/model/gpu/product.h"
#include "src/model/graph/move.h"

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

/* A sum with a tensor of the same shape that is there already when node `at` runs; the tensor, or -1. */
static int lower_sum_with(const struct gwm_gpu *p, const struct gwm_node *q, int root, int at)
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
static int lower_conv(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    int at = (int)(n - g->node), q = gwm_sole_reader(p->g, p->uses, n->out, at);
    struct gwm_store to = {.out = n->out, .add = -1, .act = n->act, .block = 1};

    if (q >= 0 && n->act.kind == GWM_ACT_NONE && (to.add = lower_sum_with(p, &g->node[q], n->out, at)) >= 0) {
        p->done[q] = true;
        to.out = g->node[q].out;
        to.act = g->node[q].act;
        q = gwm_sole_reader(p->g, p->uses, to.out, q);
    }
    if (q >= 0 && g->node[q].op == GWM_MOVE && !p->resident) {
        to.block = as_block(&g->node[q].mv.move[0], &g->value[n->out].shape, &to.block_first);
        if (to.block > 1) {
            p->done[q] = true;
            to.out = g->node[q].out;
        }
    }
    return gwm_gpu_conv(p, n, &to);
}

/* An attention ends with a product, which then does all of it. */
static int product(struct gwm_gpu *p, const struct gwm_node *n)
{
    int err = gwm_gpu_attention(p, n);

    return err == -ENOTSUP ? gwm_gpu_gemm(p, n) : err;
}

static int lower(struct gwm_gpu *p, const struct gwm_node *n)
{
    /* Without elements there is nothing to do, but a place. */
    if (!p->g->value[n->out].count) {
        int y = gwm_gpu_out(p, n->out, 0, false);
        return y < 0 ? y : 0;
    }
    switch (n->op) {
    case GWM_CONV: return lower_conv(p, n);
    case GWM_POOL: return gwm_gpu_pool(p, n);
    case GWM_GEMM: return product(p, n);
    case GWM_UNARY: return gwm_gpu_unary(p, n);
    case GWM_BINARY: return gwm_gpu_binary(p, n);
    case GWM_SOFTMAX: return gwm_gpu_softmax(p, n);
    case GWM_CONCAT: return gwm_gpu_concat(p, n);
    case GWM_MOVE:
    case GWM_PAD: return gwm_gpu_move(p, n);
    default: return gwm_gpu_plain(p, n);
    }
}

int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n)
{
    int before = p->node; /* it wants this one's result */

    p->node = (int)(n - p->g->node);
    int err = lower(p, n);
    p->node = before;
    return err;
}
