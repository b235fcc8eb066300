/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that only put elements elsewhere: transposes, slices, paddings, concatenations. */
#include <errno.h>
#include <string.h>

#include "src/model/gpu/gpu.h"

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

/* Where the result in one order lies just as the input in the other: then nothing moves. */
static bool same_place(struct gwm_gpu *p, const struct gwm_node *n, int *rc)
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
    *rc = b < 0 ? b : 0;
    if (b >= 0) as[turns == GWM_TO_LAST ? half : last] = b;
    return true;
}

/* Numbers that plans compute with, eight of which lie together on both sides wherever one looks? */
static bool by_eights(const struct gwm_gpu *p, const struct gwm_move *m, int x, int y)
{
    int in = m->rank - 1;

    if (p->buf[x].type > GW_DTYPE_F16 || p->buf[y].type > GW_DTYPE_F16 || m->from[in] != 1 ||
        m->to[in] != 1 || (m->dims[in] | m->start | m->offset) % 8)
        return false;
    for (int d = 0; d < in; d++)
        if ((m->from[d] | m->to[d]) % 8) return false;
    return true;
}

int gwm_gpu_move_one(struct gwm_gpu *p, const struct gwm_move *m, int x, int y)
{
    struct gwm_move_args a = {.move = *m, .count = 1};

    for (int32_t d = 0; d < m->rank; d++) a.count *= m->dims[d];
    if (x < 0 || y < 0) return x < 0 ? x : y;
    if (!a.count) return 0;
    int rc = by_eights(p, m, x, y) ? gwm_gpu_over(p, &gwm_move8_kernel, a.count / 8, &a)
                                   : gwm_gpu_over(p, &gwm_move_kernel, a.count, &a);
    if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_move_args, x), x);
    return rc ? rc : gwm_gpu_ref(p, offsetof(struct gwm_move_args, y), y);
}

int gwm_gpu_move(struct gwm_gpu *p, const struct gwm_node *n)
{
    uint32_t half = p->half ? GWM_HALF : 0;
    int rc = 0, y;

    if (same_place(p, n, &rc)) return rc;
    y = gwm_gpu_out(p, n->out, gwm_gpu_out_form(p, n->out) & ~GWM_LAST, false);
    if (y < 0) return y;
    if (n->op == GWM_PAD) {
        struct gwm_fill_args a = {
            .f = n->mv.pad_float, .i = n->mv.pad_int, .count = p->g->value[n->out].count};
        rc = gwm_gpu_over(p, &gwm_fill_kernel, a.count, &a);
        if (!rc) rc = gwm_gpu_ref(p, offsetof(struct gwm_fill_args, y), y);
    }
    for (uint32_t i = 0; i < n->nin && !rc; i++)
        if (p->g->value[n->in[i]].count)
            rc = gwm_gpu_move_one(p, &n->mv.move[i], gwm_gpu_in(p, n->in[i], half, false), y);
    return rc;
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
    int rc = 0, y;

    if (!(form & GWM_LAST) || !joins_channels(p, n)) return gwm_gpu_move(p, n);
    y = gwm_gpu_out(p, n->out, form, false);
    if (y < 0) return y;
    for (uint32_t i = 0; i < n->nin && !rc; i++) {
        const struct gwm_value *v = &p->g->value[n->in[i]];
        const struct gwm_shape box = {2, {v->count / v->shape.d[1], v->shape.d[1]}},
                               all = {2, {box.d[0], s->d[1]}};
        struct gwm_move m;
        gwm_move_place(&m, &box, &all, (const int32_t[]){0, at});
        rc = gwm_gpu_move_one(p, &m, gwm_gpu_in(p, n->in[i], form, false), y);
        at += v->shape.d[1];
    }
    return rc;
}
