/* SPDX-License-Identifier: Apache-2.0 */
/* The work that is done element by element: pools, functions, arithmetic, copies. */
#ifndef GW_MODEL_KERNELS_ELEMENTS_H
#define GW_MODEL_KERNELS_ELEMENTS_H

#include "src/model/kernels/device.h"

GW_DEV float gwm_pool_window(const struct gwm_pool_args *a, const struct gwm_view *x, int32_t i)
{
    const struct gwm_window *w = &a->win;
    int32_t c = a->last ? i % w->c : 0, p = a->last ? i / w->c : i, plane = p / w->ow / w->oh;
    int32_t first = a->last ? plane * w->c * w->h * w->w + c : plane * w->h * w->w, col = a->last ? w->c : 1;
    int32_t y0 = p / w->ow % w->oh * w->sh - w->top, x0 = p % w->ow * w->sw - w->left;
    int32_t inside = 0, counted = 0, ky, kx, n;
    float max = -INFINITY, sum = 0;

    for (ky = 0; ky < w->kh; ky++) {
        for (kx = 0; kx < w->kw; kx++) {
            int32_t iy = y0 + ky * w->dh, ix = x0 + kx * w->dw;
            counted += iy < w->h + w->bottom && ix < w->w + w->right;
            if (iy >= 0 && iy < w->h && ix >= 0 && ix < w->w) {
                float v = gwm_get(x, first + (iy * w->w + ix) * col);
                max = gwm_larger(max, v);
                sum += v;
                inside++;
            }
        }
    }
    n = a->count_pads ? counted : inside;
    return !a->average ? max : n ? sum / (float)n : 0;
}

GWM_KERNEL(gwm_pool_kernel, struct gwm_pool_args, a)
{
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) gwm_set(&y, i, gwm_pool_window(a, &x, i));
}

GWM_KERNEL(gwm_unary_kernel, struct gwm_unary_args, a)
{
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim(), eights = a->count / 8;

    for (i = (int32_t)gw_global_idx(); i < eights; i += step) {
        struct gwm_f8 f = gwm_get8(&x, 8 * i);
        gwm_activate8(&a->act, &f);
        gwm_set8(&y, 8 * i, &f);
    }
    for (i = 8 * eights + (int32_t)gw_global_idx(); i < a->count; i += step)
        gwm_set(&y, i, gwm_activate_apart(a->act.kind, a->act.a, a->act.b, gwm_get(&x, i)));
}

GWM_KERNEL(gwm_fill_kernel, struct gwm_fill_args, a)
{
    struct gwm_view y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        if (gwm_is_wide(y.type))
            ((int64_t *)y.p)[i] = a->i;
        else
            gwm_set(&y, i, a->f);
    }
}

GW_SLOW_DEV float gwm_binary_apart(int32_t kind, float a, float b)
{
    return gwm_binary1(kind, a, b);
}

/* Eight elements whose operands lie together, or are one. */
GW_DEV void gwm_binary8(int32_t kind, struct gwm_f8 *a, const struct gwm_f8 *b)
{
    int32_t k;

    switch (kind) {
    case GWM_ADD:
        GWM_UNROLL
        for (k = 0; k < 8; k++) a->v[k] += b->v[k];
        break;
    case GWM_MUL:
        GWM_UNROLL
        for (k = 0; k < 8; k++) a->v[k] *= b->v[k];
        break;
    default:
        GWM_UNROLL
        for (k = 0; k < 8; k++) a->v[k] = gwm_binary_apart(kind, a->v[k], b->v[k]);
    }
}

GW_DEV struct gwm_f8 gwm_get8_or_one(const struct gwm_view *v, int32_t i, int32_t stride)
{
    struct gwm_f8 f;
    int32_t k;

    if (stride) return gwm_get8(v, i);
    f.v[0] = gwm_get(v, i);
    GWM_UNROLL
    for (k = 1; k < 8; k++) f.v[k] = f.v[0];
    return f;
}

GWM_INLINE void gwm_binary_eights(const struct gwm_binary_args *p, uint32_t type)
{
    struct gwm_view a = gwm_view_of(&p->a, type), b = gwm_view_of(&p->b, type), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim(), in = p->bc.rank - 1;

    for (i = (int32_t)gw_global_idx(); i < p->count / 8; i += step) {
        int32_t left = 8 * i, oa = 0, ob = 0;
        struct gwm_f8 va, vb;
        for (d = in; d > 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        va = gwm_get8_or_one(&a, oa + left * p->bc.a[0], p->bc.a[in]);
        vb = gwm_get8_or_one(&b, ob + left * p->bc.b[0], p->bc.b[in]);
        gwm_binary8(p->kind, &va, &vb);
        gwm_activate8(&p->act, &va);
        gwm_set8(&y, 8 * i, &va);
    }
}

/* As below, where the innermost dimension and all other strides are multiples of 8. Both operands have one
 * type. */
GWM_KERNEL(gwm_binary8_kernel, struct gwm_binary_args, p)
{
    GWM_BY_TYPE(p->a.type, gwm_binary_eights, p);
}

GWM_KERNEL(gwm_binary_kernel, struct gwm_binary_args, p)
{
    struct gwm_view a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, oa = 0, ob = 0;
        for (d = p->bc.rank - 1; d > 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        oa += left * p->bc.a[0];
        ob += left * p->bc.b[0];
        gwm_set(&y, i,
                gwm_activate_apart(p->act.kind, p->act.a, p->act.b,
                                   gwm_binary_apart(p->kind, gwm_get(&a, oa), gwm_get(&b, ob))));
    }
}

/* One element: numbers that plans compute with may change their type on the way. */
GW_DEV void gwm_copy1(const struct gwm_view *x, int32_t from, const struct gwm_view *y, int32_t to)
{
    if (x->type <= GW_DTYPE_F16 && y->type <= GW_DTYPE_F16) {
        gwm_set(y, to, gwm_get(x, from));
        return;
    }
    switch (x->type) { /* the same on both sides */
    case GW_DTYPE_I64:
    case GW_DTYPE_U64:
    case GW_DTYPE_F64: ((uint64_t *)y->p)[to] = ((const uint64_t *)x->p)[from]; break;
    case GW_DTYPE_I32:
    case GW_DTYPE_U32: ((uint32_t *)y->p)[to] = ((const uint32_t *)x->p)[from]; break;
    case GW_DTYPE_BF16:
    case GW_DTYPE_I16:
    case GW_DTYPE_U16: ((uint16_t *)y->p)[to] = ((const uint16_t *)x->p)[from]; break;
    default: ((uint8_t *)y->p)[to] = ((const uint8_t *)x->p)[from]; break;
    }
}

/* Where elements come from and go to: those that begin with number `left` of the result. */
GW_DEV void gwm_move_at(const struct gwm_move *m, int32_t left, int32_t *from, int32_t *to)
{
    int32_t d;

    *from = m->start, *to = m->offset;
    for (d = m->rank - 1; d > 0; d--) {
        int32_t at = left % m->dims[d];
        left /= m->dims[d];
        *from += at * m->from[d];
        *to += at * m->to[d];
    }
    *from += left * m->from[0];
    *to += left * m->to[0];
}

/* As below, of numbers that plans compute with, where eight lie together on both sides. */
GWM_KERNEL(gwm_move8_kernel, struct gwm_move_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, from, to, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count / 8; i += step) {
        struct gwm_f8 f;
        gwm_move_at(&p->move, 8 * i, &from, &to);
        f = gwm_get8(&x, from);
        gwm_set8(&y, to, &f);
    }
}

GWM_KERNEL(gwm_move_kernel, struct gwm_move_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, from, to, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        gwm_move_at(&p->move, i, &from, &to);
        gwm_copy1(&x, from, &y, to);
    }
}

#endif
