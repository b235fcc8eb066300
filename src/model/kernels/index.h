/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that pick elements by index, choose between them, compare them, and change their type. */
#ifndef GW_MODEL_KERNELS_INDEX_H
#define GW_MODEL_KERNELS_INDEX_H

#include "src/model/kernels/device.h"

/* A negative index counts from the end. One outside, from a client perhaps, is taken as the nearest
 * inside. */
GWM_KERNEL(gwm_gather_kernel, struct gwm_gather_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y), index = gwm_view(&p->index);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t run = i / p->s.inner, o = run / p->s.count, from;
        int64_t at = ((const int64_t *)index.p)[run % p->s.count];
        if (at < 0) at += p->s.n;
        at = at < 0 ? 0 : at >= p->s.n ? p->s.n - 1 : at;
        from = (o * p->s.n + (int32_t)at) * p->s.inner + i % p->s.inner;
        if (gwm_is_wide(x.type))
            ((int64_t *)y.p)[i] = ((const int64_t *)x.p)[from];
        else
            gwm_set(&y, i, gwm_get(&x, from));
    }
}

GWM_KERNEL(gwm_interp_kernel, struct gwm_interp_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, t, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t run = i / p->inner, o = run / p->to, first = run % p->to * p->taps;
        float sum = 0;
        for (t = first; t < first + p->taps; t++)
            if (p->index[t] >= 0)
                sum += p->weight[t] * gwm_get(&x, (o * p->n + p->index[t]) * p->inner + i % p->inner);
        gwm_set(&y, i, sum);
    }
}

GWM_KERNEL(gwm_select_kernel, struct gwm_select_args, p)
{
    struct gwm_view c = gwm_view(&p->c), a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, oc = 0, oa = 0, ob = 0;
        for (d = p->s.rank - 1; d >= 0; d--) {
            int32_t at = left % p->s.dims[d];
            left /= p->s.dims[d];
            oc += at * p->s.stride[0][d];
            oa += at * p->s.stride[1][d];
            ob += at * p->s.stride[2][d];
        }
        if (gwm_is_wide(y.type))
            ((int64_t *)y.p)[i] =
                ((const int64_t *)c.p)[oc] ? ((const int64_t *)a.p)[oa] : ((const int64_t *)b.p)[ob];
        else
            gwm_set(&y, i, ((const int64_t *)c.p)[oc] ? gwm_get(&a, oa) : gwm_get(&b, ob));
    }
}

/* Two integers, two of float64, or the comparison of two floats. */
GWM_KERNEL(gwm_binary_int_kernel, struct gwm_binary_args, p)
{
    struct gwm_view a = gwm_view(&p->a), b = gwm_view(&p->b), y = gwm_view(&p->y);
    int32_t i, d, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        int32_t left = i, oa = 0, ob = 0;
        for (d = p->bc.rank - 1; d >= 0; d--) {
            int32_t at = left % p->bc.dims[d];
            left /= p->bc.dims[d];
            oa += at * p->bc.a[d];
            ob += at * p->bc.b[d];
        }
        if (a.type == GW_DTYPE_I64)
            ((int64_t *)y.p)[i] =
                gwm_binary1_i64(p->kind, ((const int64_t *)a.p)[oa], ((const int64_t *)b.p)[ob]);
        else if (y.type == GW_DTYPE_F64)
            ((double *)y.p)[i] =
                gwm_binary_f64(p->kind, ((const double *)a.p)[oa], ((const double *)b.p)[ob]);
        else if (a.type == GW_DTYPE_F64)
            ((int64_t *)y.p)[i] =
                gwm_compare_f64(p->kind, ((const double *)a.p)[oa], ((const double *)b.p)[ob]);
        else
            ((int64_t *)y.p)[i] = gwm_compare1(p->kind, gwm_get(&a, oa), gwm_get(&b, ob));
    }
}

GW_DEV int64_t gwm_unary_int(int32_t kind, int64_t v)
{
    switch (kind) {
    case GWM_ACT_RELU: return v > 0 ? v : 0;
    case GWM_ACT_ABS: return v < 0 ? (int64_t)(0 - (uint64_t)v) : v;
    case GWM_ACT_NEG: return (int64_t)(0 - (uint64_t)v);
    case GWM_ACT_SIGN: return (v > 0) - (v < 0);
    case GWM_ACT_NOT: return !v;
    default: return v;
    }
}

GWM_KERNEL(gwm_unary_int_kernel, struct gwm_unary_args, a)
{
    struct gwm_view x = gwm_view(&a->x), y = gwm_view(&a->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < a->count; i += step) {
        if (x.type == GW_DTYPE_F64)
            ((double *)y.p)[i] = gwm_activate_f64(a->act.kind, a->act.a, a->act.b, ((const double *)x.p)[i]);
        else
            ((int64_t *)y.p)[i] = gwm_unary_int(a->act.kind, ((const int64_t *)x.p)[i]);
    }
}

/* ---- types ---- */

GW_DEV double gwm_load_real(const struct gwm_view *x, int32_t i)
{
    uint32_t bits;
    float f;

    switch (x->type) {
    case GW_DTYPE_F64: return ((const double *)x->p)[i];
    case GW_DTYPE_BF16:
        bits = (uint32_t)((const uint16_t *)x->p)[i] << 16;
        memcpy(&f, &bits, sizeof(f));
        return (double)f;
    default: return (double)gwm_get(x, i);
    }
}

GW_DEV void gwm_store_real(const struct gwm_view *y, int32_t i, double d)
{
    float f = (float)d;
    uint32_t bits;

    switch (y->type) {
    case GW_DTYPE_F64: ((double *)y->p)[i] = d; break;
    case GW_DTYPE_BF16: /* to the nearest, ties to even; a NaN stays one */
        memcpy(&bits, &f, sizeof(bits));
        bits = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)y->p)[i] = (uint16_t)(bits >> 16);
        break;
    default: gwm_set(y, i, f); break;
    }
}

/* An integer's low bytes, read as that type. */
GW_DEV int64_t gwm_as_type(uint32_t type, int64_t v)
{
    switch (type) {
    case GW_DTYPE_BOOL: return v != 0;
    case GW_DTYPE_U8: return (uint8_t)v;
    case GW_DTYPE_I8: return (int8_t)v;
    case GW_DTYPE_U16: return (uint16_t)v;
    case GW_DTYPE_I16: return (int16_t)v;
    case GW_DTYPE_U32: return (uint32_t)v;
    case GW_DTYPE_I32: return (int32_t)v;
    default: return v;
    }
}

GW_DEV int64_t gwm_load_int(const struct gwm_view *x, int32_t i)
{
    switch (x->type) {
    case GW_DTYPE_U16:
    case GW_DTYPE_I16: return gwm_as_type(x->type, ((const uint16_t *)x->p)[i]);
    case GW_DTYPE_U32:
    case GW_DTYPE_I32: return gwm_as_type(x->type, ((const uint32_t *)x->p)[i]);
    case GW_DTYPE_U64:
    case GW_DTYPE_I64: return ((const int64_t *)x->p)[i];
    default: return gwm_as_type(x->type, ((const uint8_t *)x->p)[i]);
    }
}

GW_DEV void gwm_store_int(const struct gwm_view *y, int32_t i, int64_t v)
{
    switch (y->type) {
    case GW_DTYPE_U16:
    case GW_DTYPE_I16: ((uint16_t *)y->p)[i] = (uint16_t)v; break;
    case GW_DTYPE_U32:
    case GW_DTYPE_I32: ((uint32_t *)y->p)[i] = (uint32_t)v; break;
    case GW_DTYPE_U64:
    case GW_DTYPE_I64: ((int64_t *)y->p)[i] = v; break;
    default: ((uint8_t *)y->p)[i] = (uint8_t)v; break;
    }
}

GWM_KERNEL(gwm_convert_kernel, struct gwm_convert_args, p)
{
    struct gwm_view x = gwm_view(&p->x), y = gwm_view(&p->y);
    int32_t i, step = (int32_t)gw_global_dim();

    for (i = (int32_t)gw_global_idx(); i < p->count; i += step) {
        bool real = x.type <= GW_DTYPE_F64;
        int64_t v = real ? 0 : gwm_load_int(&x, i);
        double f = real ? gwm_load_real(&x, i) : p->positive ? (double)(uint64_t)v : (double)v;
        if (p->to <= GW_DTYPE_F64) {
            gwm_store_real(&y, i, f);
            continue;
        }
        if (real) v = p->to == GW_DTYPE_BOOL ? f != 0 : gwm_whole(p->to, f);
        gwm_store_int(&y, i, gwm_as_type(p->to, v));
    }
}

#endif
