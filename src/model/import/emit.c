/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes, values, constants and views that operators make; and what they define. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/import/names.h"
#include "src/model/import/ops.h"
#include "src/model/ref/ref.h"

int gwm_emit(struct gwm_import *im, enum gwm_op op, const int *in, uint32_t nin, const struct gwm_shape *out,
             const char *name)
{
    uint32_t type = im->g->value[in[0]].type;
    int v = gwm_value_new(im->g, name, gwm_computed(type), out);

    if (v == -EOVERFLOW) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    int i = v < 0 ? v : gwm_node_new(im->g, op, in, nin, v);
    if (i < 0) return gwm_op_fail(im, i, "out of memory");
    im->g->value[v].type = type;
    struct gwm_node *n = &im->g->node[i];
    n->name = gwm_strdup(im->g, im->node->name ? im->node->name : "");
    n->type = gwm_strdup(im->g, im->node->op_type);
    return n->name && n->type ? i : gwm_op_fail(im, -ENOMEM, "out of memory");
}

int gwm_typed(struct gwm_import *im, int node, uint32_t type)
{
    if (node < 0) return node;
    struct gwm_value *v = &im->g->value[im->g->node[node].out];
    v->dtype = gwm_computed(type);
    v->type = type;
    return node;
}

/* The cost of evaluating a node, in elements. */
static int64_t emit_work(const struct gwm_graph *g, const struct gwm_node *n)
{
    int64_t out = g->value[n->out].count, sum = out;

    for (uint32_t i = 0; i < n->nin; i++) sum += g->value[n->in[i]].count;
    switch (n->op) {
    case GWM_CONV:
    case GWM_DECONV: return sum + out * (n->conv.win.c / n->conv.group) * n->conv.win.kh * n->conv.win.kw;
    case GWM_POOL: return sum + out * n->pool.win.kh * n->pool.win.kw;
    case GWM_GEMM: return sum + out * n->gemm.k;
    case GWM_INTERP: return sum + out * n->interp.taps;
    default: return sum;
    }
}

int gwm_settle(struct gwm_import *im, int node)
{
    struct gwm_graph *g = im->g;
    struct gwm_node *n = &g->node[node];
    struct gwm_value *out = &g->value[n->out];

    for (uint32_t i = 0; i < n->nin; i++)
        if (!g->value[n->in[i]].data) {
            if (out->count) return n->out;
            return gwm_op_fail(im, -ENOTSUP, "its result has no elements");
        }
    int64_t cost = emit_work(g, n);
    if (out->count && (cost < 0 || cost > g->work)) return n->out; /* left to the back-end */
    g->work -= cost;
    const void **in = calloc(n->nin, sizeof(*in));
    void *data = gwm_alloc(g, gwm_bytes(out));
    if (in && data) {
        for (uint32_t i = 0; i < n->nin; i++) in[i] = g->value[n->in[i]].data;
        gwm_ref_eval(n, g, in, data);
        out->data = data;
        n->dead = true;
    }
    free(in);
    return data && in ? n->out : gwm_op_fail(im, -ENOMEM, "out of memory: its constant result is too large");
}

int gwm_const(struct gwm_import *im, uint32_t dtype, const struct gwm_shape *shape, const void *data,
              void **room)
{
    int v = gwm_value_new(im->g, "", dtype, shape);

    if (v < 0) return v;
    size_t bytes = gwm_bytes(&im->g->value[v]);
    void *p = gwm_alloc(im->g, bytes);
    if (!p) return -ENOMEM;
    if (data && bytes) memcpy(p, data, bytes);
    if (room) *room = p;
    im->g->value[v].data = p;
    return v;
}

int gwm_reshape(struct gwm_import *im, int of, const struct gwm_shape *shape)
{
    int v = gwm_view_new(im->g, im->node->output[0], of, shape);

    if (v < 0) return gwm_op_fail(im, v, "out of memory");
    im->g->value[v].data = im->g->value[of].data;
    return v;
}

int gwm_result(struct gwm_import *im, int value)
{
    return gwm_result_at(im, 0, value);
}

int gwm_result_at(struct gwm_import *im, size_t i, int value)
{
    int err = value < 0 ? value : gwm_define(im, im->node->output[i], value);

    if (!err) im->done = i + 1;
    return err;
}
