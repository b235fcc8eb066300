/* SPDX-License-Identifier: Apache-2.0 */
/* What happens element by element: pools, functions, arithmetic, copies. */
#ifndef GW_MODEL_KERNELS_MORE_H
#define GW_MODEL_KERNELS_MORE_H

#include "src/model/kernels.h"

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
                max = fmaxf(max, v);
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
    int32_t i, step = (int32_t)gw_global_dim(), fours = a->count / 4;

    for (i = (int32_t)gw_global_idx(); i < fours; i += step) {
        struct gwm_f4 v = gwm_get4(&x, 4 * i);
        v.x = gwm_activate(&a->act, v.x), v.y = gwm_activate(&a->act, v.y);
        v.z = gwm_activate(&a->act, v.z), v.w = gwm_activate(&a->act, v.w);
        gwm_set4(&y, 4 * i, &v);
    }
    for (i = 4 * fours + (int32_t)gw_global_idx(); i < a->count; i += step)
        gwm_set(&y, i, gwm_activate(&a->act, gwm_get(&x, i)));
}

GWM_KERNEL(gwm_fill_kernel, struct gwm_fill_args, a)
{
    struct gwm_view y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        if (y.type == GW_DTYPE_I64)
            ((int64_t *)y.p)[i] = (int64_t)a->value;
        else
            gwm_set(&y, i, a->value);
    }
}

/* Four elements whose operands lie together, or are one. */
GW_DEV void gwm_binary4(const struct gwm_binary_args *p, const struct gwm_f4 *a, const struct gwm_f4 *b,
                        const struct gwm_view *y, int32_t i)
{
    struct gwm_f4 v;

    v.x = gwm_activate(&p->act, gwm_binary1(p->kind, a->x, b->x));
    v.y = gwm_activate(&p->act, gwm_binary1(p->kind, a->y, b->y));
    v.z = gwm_activate(&p->act, gwm_binary1(p->kind, a->z, b->z));
    v.w = gwm_activate(&p->act, gwm_binary1(p->kind, a->w, b->w));
    gwm_set4(y, i, &v);
}

GW_DEV struct gwm_f4 gwm_get4_or_one(const struct gwm_view *v, int32_t i, int32_t stride)
{
    struct gwm_f4 f;

    if (stride) return gwm_get4(v, i);
    f.x = f.y = f.z = f.w = gwm_get(v, i);
    return f;
}

/* As below, where the innermost dimension and all other strides are multiples of 4. */
GWM_KERNEL(gwm_binary4_kernel, struct gwm_binary_args, p)
{
    struct gwm_view a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim(), in = p->bc.rank - 1;

    for (i = (int32_t)gw_global_idx(); i < p->count / 4; i += step) {
        int32_t left = 4 * i, oa = 0, ob = 0;
        struct gwm_f4 va, vb;
        for (d = in; d > 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        va = gwm_get4_or_one(&a, oa + left * p->bc.a[0], p->bc.a[in]);
        vb = gwm_get4_or_one(&b, ob + left * p->bc.b[0], p->bc.b[in]);
        gwm_binary4(p, &va, &vb, &y, 4 * i);
    }
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
        gwm_set(&y, i, gwm_activate(&p->act, gwm_binary1(p->kind, gwm_get(&a, oa), gwm_get(&b, ob))));
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

GWM_KERNEL(gwm_move_kernel, struct gwm_move_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, from = p->move.start, to = p->move.offset;
        for (d = p->move.rank - 1; d > 0; d--) {
            int32_t at = left % p->move.dims[d];
            left /= p->move.dims[d];
            from += at * p->move.from[d];
            to += at * p->move.to[d];
        }
        gwm_copy1(&x, from + left * p->move.from[0], &y, to + left * p->move.to[0]);
    }
}

#endif
