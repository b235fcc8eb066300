/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tensors lie in memory: fp32 or fp16, in C order or (pictures) with the channels last. A node writes
 * its result in one form; a node that needs another has it converted, once. A node that was put off is
 * lowered when its value is read, by the plan's own function: this file knows no kinds of nodes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu/form.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/launch.h"
#include "src/model/graph/half.h"
#include "src/model/graph/move.h"

uint32_t gwm_gpu_form(const struct gwm_gpu *p, int root, uint32_t form)
{
    const struct gwm_shape *s = &p->g->value[root].shape;

    if (s->rank != 4 || s->d[1] == 1 || s->d[2] * s->d[3] == 1) form &= ~GWM_LAST;
    return p->g->value[root].dtype == GWM_F32 ? form : 0;
}

uint32_t gwm_gpu_wanted(const struct gwm_gpu *p, int root)
{
    return gwm_gpu_form(p, root, (p->half ? GWM_HALF : 0) | (p->last && p->picture[root] ? GWM_LAST : 0));
}

int gwm_gpu_turns(const struct gwm_graph *g, const struct gwm_node *n)
{
    static const int32_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    const struct gwm_value *x = &g->value[n->in[0]], *y = &g->value[n->out];
    struct gwm_move want;

    if (n->op != GWM_MOVE || x->dtype != GWM_F32 || x->shape.rank != 4 || y->shape.rank != 4 ||
        x->root != n->in[0])
        return 0;
    gwm_move_permute(&want, x->shape.d, 4, last);
    if (!memcmp(&want, &n->mv.move[0], sizeof(want)) && y->shape.d[3] == x->shape.d[1]) return GWM_TO_LAST;
    gwm_move_permute(&want, x->shape.d, 4, first);
    return !memcmp(&want, &n->mv.move[0], sizeof(want)) && y->shape.d[1] == x->shape.d[3] ? GWM_TO_FIRST : 0;
}

void gwm_gpu_pictures(struct gwm_gpu *p)
{
    for (int i = 0; i < p->g->nnode; i++) {
        const struct gwm_node *n = &p->g->node[i];
        bool is = n->op == GWM_CONV || n->op == GWM_POOL;
        if (n->op == GWM_UNARY || n->op == GWM_BINARY || n->op == GWM_CONCAT)
            for (uint32_t k = 0; k < n->nin; k++) is |= p->picture[p->g->value[n->in[k]].root];
        is |= gwm_gpu_turns(p->g, n) == GWM_TO_FIRST;
        p->picture[n->out] = is && p->g->value[n->out].shape.rank == 4;
    }
}

static uint32_t form_type(const struct gwm_gpu *p, int root, uint32_t form)
{
    if (p->g->value[root].dtype != GWM_F32) return p->g->value[root].dtype;
    return form & GWM_HALF ? GW_DTYPE_F16 : GW_DTYPE_F32;
}

static size_t form_bytes(const struct gwm_gpu *p, int root, uint32_t form)
{
    return (size_t)p->g->value[root].count * gw_dtype_bytes(form_type(p, root, form));
}

int gwm_gpu_convert(struct gwm_gpu *p, int root, int from, uint32_t from_form, int to, uint32_t to_form)
{
    static const int32_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    const int32_t *d = p->g->value[root].shape.d;
    struct gwm_move m;

    if ((from_form ^ to_form) & GWM_LAST) {
        const int32_t stored[] = {d[0], d[2], d[3], d[1]};
        gwm_move_permute(&m, to_form & GWM_LAST ? d : stored, 4, to_form & GWM_LAST ? last : first);
    } else {
        gwm_move_permute(&m, &p->g->value[root].count, 1, (const int32_t[]){0});
    }
    return gwm_gpu_move_one(p, &m, from, to);
}

/* Constants are converted here and now. */
static int form_constant(struct gwm_gpu *p, int root, uint32_t form)
{
    const struct gwm_value *v = &p->g->value[root];
    const float *x = (const float *)v->data;

    if (!form) return gwm_gpu_static(p, v->data, form_bytes(p, root, 0), form_type(p, root, 0));
    int32_t c = v->shape.d[1], plane = form & GWM_LAST ? v->shape.d[2] * v->shape.d[3] : 1;
    size_t bytes = form_bytes(p, root, form);
    char *to = malloc(bytes);
    for (int32_t i = 0; to && i < v->count; i++) {
        int32_t from = form & GWM_LAST ? i / c / plane * c * plane + i % c * plane + i / c % plane : i;
        if (form & GWM_HALF)
            ((uint16_t *)to)[i] = gwm_half_round(x[from]);
        else
            ((float *)to)[i] = x[from];
    }
    return gwm_gpu_take(p, to, bytes, form_type(p, root, form));
}

static bool outside(const struct gwm_gpu *p, int buf)
{
    return p->buf[buf].mem == GWM_MEM_IN || p->buf[buf].mem == GWM_MEM_OUT;
}

int gwm_gpu_in(struct gwm_gpu *p, int value, uint32_t form, bool fixed)
{
    int root = p->g->value[value].root, from = -1, *as = &p->as[root * GWM_SLOTS];
    uint32_t slot = form = gwm_gpu_form(p, root, form);

    if (as[form] >= 0 && fixed && outside(p, as[form])) slot = GWM_FIXED;
    if (as[slot] >= 0) return as[slot];
    if (p->g->value[root].data) return as[form] = form_constant(p, root, form);
    int m = p->maker[root];
    bool made = false;
    for (uint32_t f = 0; f < GWM_FORMS; f++) made = made || as[f] >= 0;
    if (!made && m >= 0 && p->put_off[m]) {
        int err = p->lower(p, &p->g->node[m]);
        return err ? err : gwm_gpu_in(p, value, form, fixed);
    }
    /* From the form that was there first: the narrower ones were made of it. */
    for (uint32_t f = 0; f < GWM_FORMS; f++)
        if (as[f] >= 0 && (from < 0 || as[f] < as[from])) from = (int)f;
    if (from < 0) return -EINVAL; /* nothing has made it: no graph of ours */
    int source = as[from], b = gwm_gpu_scratch(p, form_bytes(p, root, form), form_type(p, root, form));
    int err = gwm_gpu_convert(p, root, source, (uint32_t)from, b, form);
    return err ? err : (as[slot] = b);
}

/* The output of the model that a root can be written to at once, or -1. */
static int straight(const struct gwm_gpu *p, int root)
{
    for (uint32_t i = 0; i < p->g->noutput; i++)
        if (p->g->value[p->g->output[i]].root == root) return p->staged[i] ? -1 : (int)i;
    return -1;
}

uint32_t gwm_gpu_out_form(const struct gwm_gpu *p, int value)
{
    return straight(p, value) >= 0 ? 0 : gwm_gpu_wanted(p, value);
}

int gwm_gpu_out(struct gwm_gpu *p, int value, uint32_t form, bool fixed)
{
    int o = straight(p, value);

    form = gwm_gpu_form(p, value, form);
    int b = o >= 0 && !form && !fixed
                ? p->out[o]
                : gwm_gpu_scratch(p, form_bytes(p, value, form), form_type(p, value, form));
    return b < 0 ? b : (p->as[value * GWM_SLOTS + (int)form] = b);
}

/* Would the kernels that read a root read it more than once, or far apart? */
static bool read_often(const struct gwm_gpu *p, int root)
{
    if (p->uses[root] != 1) return true;
    for (int i = 0; i < p->g->nnode; i++) {
        const struct gwm_node *n = &p->g->node[i];
        bool once = n->op == GWM_UNARY || n->op == GWM_BINARY || n->op == GWM_CONCAT || n->op == GWM_PAD;
        if (p->g->value[n->in[0]].root == root) return !once;
    }
    return false;
}

/* Would the kernels write a root in pieces, or does another one read it? */
static bool written_in_pieces(const struct gwm_gpu *p, int root)
{
    if (p->uses[root] != 1 || p->maker[root] < 0) return true;
    enum gwm_op op = p->g->node[p->maker[root]].op;
    return op != GWM_UNARY && op != GWM_BINARY;
}

int gwm_gpu_border(struct gwm_gpu *p)
{
    const struct gwm_graph *g = p->g;

    for (int i = 0; i < g->nvalue * GWM_SLOTS; i++) p->as[i] = -1;
    for (uint32_t i = 0; i < g->ninput; i++) {
        int root = g->input[i], *as = &p->as[root * GWM_SLOTS];
        *as = gwm_gpu_outside(p, GWM_MEM_IN, (int)i, form_type(p, root, 0));
        if (*as < 0) return *as;
        if (p->gpu_io || !p->uses[root] || !read_often(p, root)) continue;
        int copy = gwm_gpu_scratch(p, form_bytes(p, root, 0), form_type(p, root, 0));
        int err = gwm_gpu_convert(p, root, *as, 0, copy, 0);
        if (err) return err;
        *as = copy;
    }
    for (uint32_t i = 0; i < g->noutput; i++) {
        int root = g->value[g->output[i]].root;
        p->out[i] = gwm_gpu_outside(p, GWM_MEM_OUT, (int)i, form_type(p, root, 0));
        if (p->out[i] < 0) return p->out[i];
        p->staged[i] = p->maker[root] < 0 || (!p->gpu_io && written_in_pieces(p, root));
    }
    return 0;
}

int gwm_gpu_finish(struct gwm_gpu *p)
{
    int err = 0;

    for (uint32_t i = 0; i < p->g->noutput && !err; i++) {
        int root = p->g->value[p->g->output[i]].root, *as = &p->as[root * GWM_SLOTS], from = 0;
        if (as[0] == p->out[i]) continue;
        if (p->g->value[root].data && as[0] < 0) as[0] = form_constant(p, root, 0);
        while (from < GWM_FORMS && as[from] < 0) from++;
        err = from < GWM_FORMS ? gwm_gpu_convert(p, root, as[from], (uint32_t)from, p->out[i], 0) : -EINVAL;
    }
    return err;
}
