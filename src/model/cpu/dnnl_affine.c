/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a product and a sum with a number for each channel: normalisation of a batch that no convolution
 * could take. */
#include <errno.h>
#include <stdlib.h>

#include "src/model/cpu/dnnl_affine.h"

#include "src/model/cpu/dnnl_layout.h"

/* A constant with one number for each of `channels` of a picture, and how far apart these are; NULL: it is
 * no such. */
static const float *each_channel(const struct gwm_value *v, int32_t channels, int *step)
{
    const struct gwm_shape *s = &v->shape;
    bool right = v->count == channels && s->rank >= 3 && s->rank <= 4 && s->d[s->rank - 3] == channels;

    *step = v->count != 1;
    return v->data && v->dtype == GWM_F32 && (right || v->count == 1) ? (const float *)v->data : NULL;
}

/* The constant operand of a sum or product of a picture `x` with one; or NULL. */
static const float *operand(const struct gwm_cpu *p, const struct gwm_node *n, enum gwm_binary kind, int x,
                            int *step)
{
    const struct gwm_shape *y = &p->g->value[n->out].shape;

    if (n->op != GWM_BINARY || n->binary.kind != kind || y->rank != 4) return NULL;
    int k = p->g->value[n->in[0]].root == x ? 0 : 1;
    if (n->in[k] != x || !gwm_same_shape(&p->g->value[x].shape, y)) return NULL;
    return each_channel(&p->g->value[n->in[!k]], y->d[1], step);
}

bool gwm_affine_find(const struct gwm_cpu *p, const struct gwm_node *n, struct gwm_affine *a)
{
    const struct gwm_graph *g = p->g;

    if (n->act.kind != GWM_ACT_NONE) return false;
    a->by.from = operand(p, n, GWM_MUL, n->in[0], &a->by.step);
    a->sum = a->by.from ? gwm_sole_reader(g, p->uses, n->out, (int)(n - g->node)) : -1;
    a->plus.from = a->sum >= 0 ? operand(p, &g->node[a->sum], GWM_ADD, n->out, &a->plus.step) : NULL;
    return a->plus.from;
}

int gwm_fixed_channels(struct gwm_cpu *p, int32_t channels, struct gwm_per_channel is)
{
    float *all = (float *)malloc((size_t)channels * sizeof(*all));

    for (int32_t i = 0; all && i < channels; i++) all[i] = is.from[i * is.step];
    int b = all ? gwm_fixed_bias(p, all, channels, 1) : -ENOMEM;
    free(all);
    return b;
}
