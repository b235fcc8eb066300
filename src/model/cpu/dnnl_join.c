/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concatenation along channels, where a pixel's channels lie side by side. The same pass takes along the
 * product and the sum per channel and the function that come next. Densely connected networks do all this
 * before each convolution, with everything that was made before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/cpu/dnnl_join.h"

#include "src/model/cpu/dnnl.h"
#include "src/model/cpu/dnnl_affine.h"
#include "src/model/cpu/dnnl_layout.h"
#include "src/model/cpu/steps.h"
#include "src/model/graph/activate.h"

struct gwm_join {
    struct gwm_join *next;
    const struct gwm_act *act; /* after the sum */
    int64_t pixels;
    int by, plus; /* buffers with a number per channel; -1: neither product nor sum */
    int out, n;
    struct {
        const float *at; /* in the run under way */
        int buf;
        int32_t channels;
    } part[];
};

/* ---- the loop ---- */

#define LOOP(expression)                                                                                     \
    do {                                                                                                     \
        for (int32_t i = 0; i < n; i++) y[i] = (expression);                                                 \
    } while (0)

static void scaled_row(const struct gwm_act *act, const float *restrict x, const float *restrict by,
                       const float *restrict plus, float *restrict y, int32_t n)
{
    switch (act->kind) {
    case GWM_ACT_NONE: LOOP(x[i] * by[i] + plus[i]); break;
    case GWM_ACT_RELU: LOOP(x[i] * by[i] + plus[i] < 0 ? 0 : x[i] * by[i] + plus[i]); break;
    default: LOOP(gwm_activate(act, x[i] * by[i] + plus[i])); break;
    }
}

void gwm_join_run(struct gwm_cpu *p, struct gwm_join *j)
{
    const float *by = j->by < 0 ? NULL : gwm_cpu_at(p, j->by), *plus = by ? gwm_cpu_at(p, j->plus) : NULL;
    float *y = gwm_cpu_at(p, j->out);

    for (int k = 0; k < j->n; k++) j->part[k].at = gwm_cpu_at(p, j->part[k].buf);
    for (int64_t i = 0; i < j->pixels; i++) {
        int32_t first = 0;
        for (int k = 0; k < j->n; k++) {
            int32_t c = j->part[k].channels;
            if (by)
                scaled_row(j->act, j->part[k].at, by + first, plus + first, y, c);
            else
                memcpy(y, j->part[k].at, (size_t)c * sizeof(*y));
            j->part[k].at += c;
            first += c;
            y += c;
        }
    }
}

void gwm_join_free(struct gwm_join *all)
{
    for (struct gwm_join *next; all; all = next) {
        next = all->next;
        free(all);
    }
}

/* ---- the plan ---- */

static md_t channels_last(const struct gwm_shape *s)
{
    dnnl_dims_t d = {s->d[0], s->d[1], s->d[2], s->d[3]};

    return md_new(d, 4, dnnl_nhwc);
}

/* Is it worth it? One of the parts at least lies so already, and each is a picture that is no view. */
static bool dnnl_join_fits(const struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    const struct gwm_shape *out = &g->value[n->out].shape;
    int32_t channels = 0;
    bool there = false;

    if (out->rank != 4) return false;
    for (uint32_t i = 0; i < n->nin; i++) {
        const struct gwm_value *v = &g->value[n->in[i]];
        if (v->root != n->in[i] || v->data || v->shape.rank != 4) return false;
        md_t md = channels_last(&v->shape);
        there = there || (md && gwm_form_find(p, v->root, md));
        md_free(md);
        channels += v->shape.d[1];
    }
    return there && channels == out->d[1]; /* else along another axis */
}

/* The buffer of a part; the reorder that it may need comes before the step of the join. */
static int part_buffer(struct gwm_cpu *p, int value)
{
    const struct gwm_shape *s = &p->g->value[value].shape;
    md_t have = gwm_dnnl_c_order(p, value), want = channels_last(s);
    int b = have && want ? gwm_dnnl_in_layout(p, value, have, want) : -ENOMEM;

    md_free(have);
    md_free(want);
    return b;
}

static int result_buffer(struct gwm_cpu *p, int value)
{
    md_t md = channels_last(&p->g->value[value].shape);
    int b = md ? gwm_form_add(p, value, md, true) : -ENOMEM;

    md_free(md);
    if (b >= 0) p->plain[value] = false;
    return b;
}

/* Takes along what comes after the concatenation, if nothing else reads that; returns the value that the
 * step makes. */
static int take_along(struct gwm_cpu *p, const struct gwm_node *n, struct gwm_join *j)
{
    const struct gwm_graph *g = p->g;
    int m = gwm_sole_reader(g, p->uses, n->out, (int)(n - g->node));
    int32_t channels = g->value[n->out].shape.d[1];
    struct gwm_affine is;

    j->by = j->plus = -1;
    if (m < 0 || g->node[m].in[0] != n->out || !gwm_affine_find(p, &g->node[m], &is)) return n->out;
    if ((j->by = gwm_fixed_channels(p, channels, is.by)) < 0) return j->by;
    if ((j->plus = gwm_fixed_channels(p, channels, is.plus)) < 0) return j->plus;
    j->act = &g->node[is.sum].act;
    p->done[m] = p->done[is.sum] = true;
    return g->node[is.sum].out;
}

int gwm_dnnl_join(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_shape *out = &p->g->value[n->out].shape;

    if (!dnnl_join_fits(p, n)) return -ENOTSUP;
    struct gwm_join *j = calloc(1, sizeof(*j) + n->nin * sizeof(j->part[0]));
    if (!j) return -ENOMEM;
    j->next = p->dnnl->joins;
    p->dnnl->joins = j;
    j->pixels = (int64_t)out->d[0] * out->d[2] * out->d[3];
    for (uint32_t i = 0; i < n->nin; i++) {
        int b = part_buffer(p, n->in[i]);
        if (b < 0) return b;
        j->part[j->n].buf = b;
        j->part[j->n++].channels = p->g->value[n->in[i]].shape.d[1];
    }
    int value = take_along(p, n, j);
    int s = value < 0 ? value : (j->out = result_buffer(p, value));
    if (s >= 0) s = gwm_cpu_step(p, NULL, NULL);
    if (s < 0) return s;
    p->step[s].join = j;
    for (int k = 0; k < j->n; k++) gwm_cpu_use(p, j->part[k].buf);
    gwm_cpu_use(p, j->out);
    return 0;
}
