/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN's primitives as steps of a plan. Everything is decided when planning: the library picks the
 * layouts it likes best, weights are brought into them once, and activations are reordered where two steps
 * disagree. Its scratch memory lies in our arena.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/cpu/dnnl.h"

#include "src/model/cpu/steps.h"

int gwm_dnnl_status(dnnl_status_t s)
{
    return s == dnnl_success         ? 0
           : s == dnnl_out_of_memory ? -ENOMEM
           : s == dnnl_unimplemented ? -ENOTSUP
                                     : -EIO;
}

static void prim_free(struct gwm_prim *q)
{
    for (int i = 0; i < q->nargs; i++) {
        if (q->a[i].mem) dnnl_memory_destroy(q->a[i].mem);
        md_free(q->a[i].md);
    }
    if (q->scratch_mem) dnnl_memory_destroy(q->scratch_mem);
    md_free(q->scratch_md);
    if (q->bare) dnnl_primitive_destroy(q->bare);
    if (q->prim) dnnl_primitive_destroy(q->prim);
    free(q);
}

void gwm_prims_free(struct gwm_prim *all)
{
    for (struct gwm_prim *next; all; all = next) {
        next = all->next;
        prim_free(all);
    }
}

struct gwm_prim *gwm_prim_new(struct gwm_cpu *p, dnnl_primitive_desc_t pd, int *err)
{
    struct gwm_prim *q = calloc(1, sizeof(*q));

    *err = q ? gwm_dnnl_status(dnnl_primitive_create(&q->prim, pd)) : -ENOMEM;
    if (*err) {
        free(q);
        return NULL;
    }
    q->scratch = -1;
    q->always = p->odd_node;
    q->next = p->dnnl->prims;
    p->dnnl->prims = q;
    return q;
}

bool gwm_dnnl_hides(const struct gwm_act *act)
{
    return act && act->kind != GWM_ACT_NONE && act->kind != GWM_ACT_AFFINE && act->kind != GWM_ACT_LEAKY;
}

int gwm_prim_bare(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd, const struct gwm_act *act)
{
    const_md_t scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    int err = gwm_dnnl_status(dnnl_primitive_create(&q->bare, pd));

    q->act = *act;
    if (!err && bytes && !(q->scratch_md = md_copy(scratch))) err = -ENOMEM;
    if (!err && bytes) err = (q->scratch = gwm_cpu_buf(p, bytes)) < 0 ? q->scratch : 0;
    if (!err && bytes) gwm_cpu_use(p, q->scratch);
    return err;
}

int gwm_prim_arg(struct gwm_cpu *p, struct gwm_prim *q, int arg, int buf, const_md_t md)
{
    q->a[q->nargs].md = md_copy(md);
    if (!q->a[q->nargs].md) return -ENOMEM;
    q->a[q->nargs].arg = arg;
    q->a[q->nargs++].buf = buf;
    gwm_cpu_use(p, buf);
    return 0;
}

int gwm_prim_step(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd)
{
    const_md_t scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    int s = gwm_cpu_step(p, NULL, q);

    if (s < 0 || !bytes) return s < 0 ? s : 0;
    int b = gwm_cpu_buf(p, bytes);
    return b < 0 ? b : gwm_prim_arg(p, q, DNNL_ARG_SCRATCHPAD, b, scratch);
}

int gwm_dnnl_alg(const struct gwm_act *act, dnnl_alg_kind_t *alg, float *a, float *b)
{
    *a = act->a;
    *b = act->b;
    switch (act->kind) {
    case GWM_ACT_RELU:
        *alg = dnnl_eltwise_relu;
        *a = 0; /* the slope below 0 */
        break;
    case GWM_ACT_LEAKY: *alg = dnnl_eltwise_relu; break;
    case GWM_ACT_CLIP: *alg = dnnl_eltwise_clip; break;
    case GWM_ACT_SIGMOID: *alg = dnnl_eltwise_logistic; break;
    case GWM_ACT_TANH: *alg = dnnl_eltwise_tanh; break;
    case GWM_ACT_AFFINE: *alg = dnnl_eltwise_linear; break;
    case GWM_ACT_SILU: *alg = dnnl_eltwise_swish; break;
    case GWM_ACT_GELU: *alg = dnnl_eltwise_gelu_erf; break;
    case GWM_ACT_GELU_TANH: *alg = dnnl_eltwise_gelu_tanh; break;
    case GWM_ACT_EXP: *alg = dnnl_eltwise_exp; break;
    case GWM_ACT_HSWISH:
        *alg = dnnl_eltwise_hardswish;
        *a = hardswish_a;
        *b = hardswish_b;
        break;
    default: return -ENOTSUP;
    }
    return 0;
}

/* One of our functions after a primitive; -ENOTSUP when the library has none. */
static int dnnl_append(dnnl_post_ops_t ops, const struct gwm_act *act)
{
    dnnl_alg_kind_t alg;
    float a, b;

    if (act->kind == GWM_ACT_NONE) return 0;
    if (act->kind == GWM_ACT_HSIGMOID) {
        dnnl_status_t s = append_act(ops, dnnl_eltwise_linear, act->a, act->b);
        return gwm_dnnl_status(s ? s : append_act(ops, dnnl_eltwise_clip, 0, 1));
    }
    int err = gwm_dnnl_alg(act, &alg, &a, &b);
    return err ? err : gwm_dnnl_status(append_act(ops, alg, a, b));
}

int gwm_dnnl_attr(float alpha, bool sum, const struct gwm_act *act, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(attr);

    if (s || (s = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user)) || !act)
        return gwm_dnnl_status(s);
    s = dnnl_post_ops_create(&ops);
    if (!s && alpha != 1) s = append_act(ops, dnnl_eltwise_linear, alpha, 0);
    if (!s && sum) s = append_sum(ops);
    int err = s ? gwm_dnnl_status(s) : dnnl_append(ops, act);
    if (!err) err = gwm_dnnl_status(dnnl_primitive_attr_set_post_ops(*attr, ops));
    if (ops) dnnl_post_ops_destroy(ops);
    return err;
}

int gwm_prim_execute(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_t prim, void *src, void *dst)
{
    dnnl_exec_arg_t args[GWM_PRIM_ARGS + 1];
    dnnl_status_t s = dnnl_success;
    int n = 0;

    for (int i = 0; i < q->nargs && !s; i++) {
        enum gwm_buf_kind kind = p->buf[q->a[i].buf].kind;
        void *other = q->a[i].arg == DNNL_ARG_SRC ? src : q->a[i].arg == DNNL_ARG_DST ? dst : NULL;
        if (prim == q->bare && q->a[i].arg == DNNL_ARG_SCRATCHPAD) continue;
        if (kind == GWM_BUF_IN || kind == GWM_BUF_OUT || q->own || other)
            s = dnnl_memory_set_data_handle(q->a[i].mem, other ? other : gwm_cpu_at(p, q->a[i].buf));
        args[n++] = (dnnl_exec_arg_t){q->a[i].arg, q->a[i].mem};
    }
    if (prim == q->bare && q->scratch_mem) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, q->scratch_mem};
    if (!s) s = dnnl_primitive_execute(prim, p->dnnl->stream, n, args);
    if (!s) s = dnnl_stream_wait(p->dnnl->stream);
    return s ? -EIO : 0;
}

/* Our own loops are no slower than the library's for every case. */
bool gwm_dnnl_plain_loop(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) || !name ||
           strstr(name, "ref");
}
