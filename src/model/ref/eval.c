/* SPDX-License-Identifier: Apache-2.0 */
/* Any node, by the plain loop that is its own. */
#include <stddef.h>

#include "src/model/ref/ref.h"

static void ref_eval_fill(const struct gwm_node *n, const struct gwm_value *y, void *out)
{
    for (int32_t i = 0; i < y->count; i++) {
        if (y->dtype == GWM_F32)
            ((float *)out)[i] = n->mv.pad_float;
        else
            ((int64_t *)out)[i] = n->mv.pad_int;
    }
}

void gwm_ref_eval(const struct gwm_node *n, const struct gwm_graph *g, const void *const *in, void *out)
{
    const struct gwm_value *x = &g->value[n->in[0]], *y = &g->value[n->out];
    size_t width = gw_dtype_bytes(y->dtype);

    if (!y->count) return;
    switch (n->op) {
    case GWM_UNARY: gwm_ref_unary(&n->act, y->dtype, in[0], out, y->count); return;
    case GWM_BINARY: gwm_ref_binary(n, g, in[0], in[1], out); return;
    case GWM_SELECT: gwm_ref_select(&n->select, y->dtype, in, out); return;
    case GWM_SOFTMAX: gwm_ref_softmax(&n->softmax, in[0], out); return;
    case GWM_REDUCE: gwm_ref_reduce(&n->reduce, x->dtype, in[0], out); return;
    case GWM_CUMSUM: gwm_ref_cumsum(&n->cumsum, x->dtype, in[0], out); return;
    case GWM_GATHER: gwm_ref_gather(&n->gather, width, in[0], in[1], out); return;
    case GWM_INTERP: gwm_ref_interp(&n->interp, in[0], out); return;
    case GWM_CONVERT:
        gwm_ref_convert(gwm_type_held(x), n->convert.to, y->dtype, in[0], out, y->count);
        return;
    case GWM_POOL: gwm_ref_pool(&n->pool, in[0], out); return;
    case GWM_NORM: gwm_ref_norm(&n->norm, in[0], in[1], in[2], out); break;
    case GWM_CONV: gwm_ref_conv(&n->conv, in[0], out); break;
    case GWM_DECONV: gwm_ref_deconv(&n->conv, in[0], out); break;
    case GWM_GEMM: gwm_ref_gemm(&n->gemm, in[0], in[1], out); break;
    case GWM_PAD: ref_eval_fill(n, y, out); /* fall through */
    case GWM_MOVE:
    case GWM_CONCAT:
        for (uint32_t i = 0; i < n->nin; i++)
            if (g->value[n->in[i]].count) gwm_ref_move(&n->mv.move[i], width, in[i], out);
        return;
    }
    if (n->act.kind != GWM_ACT_NONE) gwm_ref_act(&n->act, out, out, y->count);
}
