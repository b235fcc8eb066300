/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that only put elements elsewhere: transposes, slices, paddings, concatenations. */
#include <errno.h>

#include "src/model/gpu/move.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/graph/move.h"
#include "src/model/kernels/args.h"

/* Where the result in one order lies just as the input in the other: then nothing moves. */
static bool same_place(struct gwm_gpu *p, const struct gwm_node *n, int *err)
{
    int turns = p->last ? gwm_gpu_turns(p->g, n) : 0, x = n->in[0];
    uint32_t half = p->half ? GWM_HALF : 0, last = half | GWM_LAST;
    int picture = turns == GWM_TO_LAST ? x : n->out, *as = &p->as[n->out * GWM_SLOTS];

    for (uint32_t i = 0; i < p->g->noutput; i++)
        if (p->g->value[p->g->output[i]].root == n->out) return false;
    if (!turns || gwm_gpu_form(p, picture, last) != last) return false;
    /* In an order that the input does not have yet it would have to be moved all the same. */
    if (turns == GWM_TO_LAST && p->as[x * GWM_SLOTS + (int)last] < 0) return false;
    int b = gwm_gpu_in(p, x, turns == GWM_TO_LAST ? last : half, true);
    *err = b < 0 ? b : 0;
    if (b >= 0) as[turns == GWM_TO_LAST ? half : last] = b;
    return true;
}

int gwm_gpu_move(struct gwm_gpu *p, const struct gwm_node *n)
{
    uint32_t half = p->half ? GWM_HALF : 0;
    int err = 0, y;

    if (same_place(p, n, &err)) return err;
    y = gwm_gpu_out(p, n->out, gwm_gpu_out_form(p, n->out) & ~GWM_LAST, false);
    if (y < 0) return y;
    if (n->op == GWM_PAD) {
        struct gwm_fill_args a = {
            .f = n->mv.pad_float, .i = n->mv.pad_int, .count = p->g->value[n->out].count};
        err = gwm_gpu_over(p, &gwm_fill_kernel, a.count, &a);
        if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_fill_args, y), y);
    }
    for (uint32_t i = 0; i < n->nin && !err; i++)
        if (p->g->value[n->in[i]].count)
            err = gwm_gpu_move_one(p, &n->mv.move[i], gwm_gpu_in(p, n->in[i], half, false), y);
    return err;
}

/* Pictures put together along their channels? */
static bool joins_channels(const struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_shape *y = &p->g->value[n->out].shape;
    int32_t channels = 0;

    for (uint32_t i = 0; i < n->nin; i++) {
        const struct gwm_value *v = &p->g->value[n->in[i]];
        const int32_t *d = v->shape.d;
        if (v->shape.rank != 4 || v->root != n->in[i] || !v->count || d[0] != y->d[0] || d[2] != y->d[2] ||
            d[3] != y->d[3])
            return false;
        channels += d[1];
    }
    return channels == y->d[1];
}

int gwm_gpu_concat(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_shape *s = &p->g->value[n->out].shape;
    uint32_t form = gwm_gpu_out_form(p, n->out);
    int32_t at = 0;
    int err = 0, y;

    if (!(form & GWM_LAST) || !joins_channels(p, n)) return gwm_gpu_move(p, n);
    y = gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    for (uint32_t i = 0; i < n->nin && !err; i++) {
        const struct gwm_value *v = &p->g->value[n->in[i]];
        const struct gwm_shape box = {2, {v->count / v->shape.d[1], v->shape.d[1]}},
                               all = {2, {box.d[0], s->d[1]}};
        struct gwm_move m;
        gwm_move_place(&m, &box, &all, (const int32_t[]){0, at});
        err = gwm_gpu_move_one(p, &m, gwm_gpu_in(p, n->in[i], form, false), y);
        at += v->shape.d[1];
    }
    return err;
}
