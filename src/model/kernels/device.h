/* SPDX-License-Identifier: Apache-2.0 */
/* Code that kernels share: macros to write one, and access to elements of any type, several at once. */
#ifndef GW_MODEL_KERNELS_DEVICE_H
#define GW_MODEL_KERNELS_DEVICE_H

#include <stdbool.h>

#include <gpuwire/dtype.h>
#include <gpuwire/kernel.h>

#include "src/model/graph/activate.h"
#include "src/model/graph/half.h"
#include "src/model/kernels/args.h"

/*
 * A kernel's work is a function of its own (NAME_work), which the program's kernel can call, too. For that
 * program_run.h defines GWM_BODIES, and gets the functions out of line, without the kernels. GWM_KERNEL: all
 * threads of a grid of any size share the work. GWM_EACH_KERNEL: the work of one block of several, number
 * `block`.
 */
#ifdef GWM_BODIES
#define GWM_KERNEL(name, type, arg)      GW_SLOW_DEV void name##_work(const type *arg)
#define GWM_EACH_KERNEL(name, type, arg) GW_SLOW_DEV void name##_work(const type *arg, int32_t block)
#else
#define GWM_KERNEL(name, type, arg)                                                                          \
    GW_DEV void name##_work(const type *arg);                                                                \
    GW_KERNEL(name, type, arg)                                                                               \
    {                                                                                                        \
        name##_work(arg);                                                                                    \
    }                                                                                                        \
    GW_DEV void name##_work(const type *arg)
#define GWM_EACH_KERNEL(name, type, arg)                                                                     \
    GW_DEV void name##_work(const type *arg, int32_t block);                                                 \
    GW_KERNEL(name, type, arg)                                                                               \
    {                                                                                                        \
        name##_work(arg, (int32_t)gw_block_idx());                                                           \
    }                                                                                                        \
    GW_DEV void name##_work(const type *arg, int32_t block)
#endif

#ifdef __CUDACC__
#define GWM_UNROLL _Pragma("unroll")
#define GWM_INLINE static __device__ __forceinline__
#else
#define GWM_UNROLL
#define GWM_INLINE static inline
#endif

/*
 * Calls a GWM_INLINE function whose last argument is the type of the elements that it reads. Where the
 * compiler knows the type it asks for many elements before it waits for the first. A program's kernel has
 * all of the functions in it, so there one copy of each must do.
 */
#ifdef GWM_BODIES
#define GWM_BY_TYPE(element, function, ...) function(__VA_ARGS__, element)
#else
#define GWM_BY_TYPE(element, function, ...)                                                                  \
    do {                                                                                                     \
        if ((element) == GW_DTYPE_F32)                                                                       \
            function(__VA_ARGS__, GW_DTYPE_F32);                                                             \
        else                                                                                                 \
            function(__VA_ARGS__, GW_DTYPE_F16);                                                             \
    } while (0)
#endif

/* Not through the read-only cache: an earlier kernel of the same graph may have written the slot. */
GW_DEV void *gwm_address(const struct gwm_ref *r)
{
    return r->slot ? *r->slot : r->at;
}

/* Of a tensor that is fp32. */
GW_DEV float *gwm_at(const struct gwm_ref *r)
{
    return (float *)gwm_address(r);
}

/* A tensor of any element type, while a kernel runs. */
struct gwm_view {
    void *p;
    uint32_t type;
};

GW_DEV struct gwm_view gwm_view(const struct gwm_ref *r)
{
    struct gwm_view v;

    v.p = gwm_address(r);
    v.type = r->type;
    return v;
}

/* Is an element, as plans compute with it, a word of 64 bits? */
GW_DEV bool gwm_is_wide(uint32_t type)
{
    return type == GW_DTYPE_I64 || type == GW_DTYPE_F64;
}

/* The same, of a type that is known. */
GW_DEV struct gwm_view gwm_view_of(const struct gwm_ref *r, uint32_t type)
{
    struct gwm_view v;

    v.p = gwm_address(r);
    v.type = type;
    return v;
}

GW_DEV float gwm_get(const struct gwm_view *v, int32_t i)
{
    return v->type == GW_DTYPE_F32 ? ((const float *)v->p)[i] : gwm_half_get(((const uint16_t *)v->p)[i]);
}

GW_DEV void gwm_set(const struct gwm_view *v, int32_t i, float x)
{
    if (v->type == GW_DTYPE_F32)
        ((float *)v->p)[i] = x;
    else
        ((uint16_t *)v->p)[i] = gwm_half_put(x);
}

struct gwm_f4 {
    float x, y, z, w;
} __attribute__((aligned(16)));

/* Eight fp16 numbers, or a part of them: two in each word. */
struct gwm_h8 {
    uint32_t two[4];
} __attribute__((aligned(16)));
struct gwm_h4 {
    uint32_t two[2];
} __attribute__((aligned(8)));

struct gwm_f8 {
    float v[8];
};

GW_DEV void gwm_spread2(uint32_t two, float *lower, float *upper)
{
    *lower = gwm_half_get((uint16_t)two), *upper = gwm_half_get((uint16_t)(two >> 16));
}

/* Four at once; i is a multiple of 4. */
GW_DEV struct gwm_f4 gwm_get4(const struct gwm_view *v, int32_t i)
{
    struct gwm_f4 f;

    if (v->type == GW_DTYPE_F32) {
        f = ((const struct gwm_f4 *)v->p)[i / 4];
    } else {
        struct gwm_h4 h = ((const struct gwm_h4 *)v->p)[i / 4];
        gwm_spread2(h.two[0], &f.x, &f.y);
        gwm_spread2(h.two[1], &f.z, &f.w);
    }
    return f;
}

GW_DEV void gwm_set4(const struct gwm_view *v, int32_t i, const struct gwm_f4 *f)
{
    if (v->type == GW_DTYPE_F32) {
        ((struct gwm_f4 *)v->p)[i / 4] = *f;
    } else {
        struct gwm_h4 h;
        h.two[0] = gwm_half_put2(f->x, f->y), h.two[1] = gwm_half_put2(f->z, f->w);
        ((struct gwm_h4 *)v->p)[i / 4] = h;
    }
}

/* Fours of elements: the i-th is number `at` + i `step`, for first <= i < end. There are no others. */
struct gwm_fours {
    int32_t at, step, first, end;
};
#define GWM_FOURS_MAX 11

/*
 * Reads `count` of them, 0 for those that there are not. The compiler must know the type and the count.
 * What is read is widened only when all of it has been asked for, or a thread would wait for each.
 */
GWM_INLINE void gwm_get_fours(const struct gwm_view *x, const struct gwm_fours *f, int32_t count,
                              struct gwm_f4 *v)
{
    struct gwm_h4 h[GWM_FOURS_MAX];
    int32_t i;

    GWM_UNROLL
    for (i = 0; i < count; i++) {
        h[i].two[0] = h[i].two[1] = 0;
        v[i].x = v[i].y = v[i].z = v[i].w = 0;
        if (i < f->first || i >= f->end) continue;
        if (x->type == GW_DTYPE_F32)
            v[i] = ((const struct gwm_f4 *)x->p)[f->at + i * f->step];
        else
            h[i] = ((const struct gwm_h4 *)x->p)[f->at + i * f->step];
    }
    if (x->type == GW_DTYPE_F32) return;
    GWM_UNROLL
    for (i = 0; i < count; i++) {
        gwm_spread2(h[i].two[0], &v[i].x, &v[i].y);
        gwm_spread2(h[i].two[1], &v[i].z, &v[i].w);
    }
}

/* Eight at once; i is a multiple of 8. */
GW_DEV struct gwm_f8 gwm_get8(const struct gwm_view *v, int32_t i)
{
    struct gwm_f8 f;
    int32_t k;

    if (v->type == GW_DTYPE_F32) {
        struct gwm_f4 a = ((const struct gwm_f4 *)v->p)[i / 4], b = ((const struct gwm_f4 *)v->p)[i / 4 + 1];
        f.v[0] = a.x, f.v[1] = a.y, f.v[2] = a.z, f.v[3] = a.w;
        f.v[4] = b.x, f.v[5] = b.y, f.v[6] = b.z, f.v[7] = b.w;
    } else {
        struct gwm_h8 h = ((const struct gwm_h8 *)v->p)[i / 8];
        GWM_UNROLL
        for (k = 0; k < 4; k++) gwm_spread2(h.two[k], &f.v[2 * k], &f.v[2 * k + 1]);
    }
    return f;
}

GW_DEV void gwm_set8(const struct gwm_view *v, int32_t i, const struct gwm_f8 *f)
{
    int32_t k;

    if (v->type == GW_DTYPE_F32) {
        struct gwm_f4 a = {f->v[0], f->v[1], f->v[2], f->v[3]}, b = {f->v[4], f->v[5], f->v[6], f->v[7]};
        ((struct gwm_f4 *)v->p)[i / 4] = a;
        ((struct gwm_f4 *)v->p)[i / 4 + 1] = b;
    } else {
        struct gwm_h8 h;
        GWM_UNROLL
        for (k = 0; k < 4; k++) h.two[k] = gwm_half_put2(f->v[2 * k], f->v[2 * k + 1]);
        ((struct gwm_h8 *)v->p)[i / 8] = h;
    }
}

GW_SLOW_DEV float gwm_activate_apart(int32_t kind, float a, float b, float x)
{
    struct gwm_act act = {kind, a, b};

    return gwm_activate(&act, x);
}

/*
 * The kind of a function is the same for all elements. So a thread looks at it once for eight of them, where
 * the kind is one of the frequent ones.
 */
GW_DEV void gwm_activate8(const struct gwm_act *act, struct gwm_f8 *f)
{
    struct gwm_act a = *act;
    int32_t k;

#define GWM_FREQUENT(known)                                                                                  \
    case known:                                                                                              \
        a.kind = known; /* so that the compiler knows it, too */                                             \
        GWM_UNROLL                                                                                           \
        for (k = 0; k < 8; k++) f->v[k] = gwm_activate(&a, f->v[k]);                                         \
        break;
    switch (act->kind) {
        GWM_FREQUENT(GWM_ACT_NONE)
        GWM_FREQUENT(GWM_ACT_RELU)
        GWM_FREQUENT(GWM_ACT_SILU)
        GWM_FREQUENT(GWM_ACT_GELU)
    default:
        GWM_UNROLL
        for (k = 0; k < 8; k++) f->v[k] = gwm_activate_apart(a.kind, a.a, a.b, f->v[k]);
    }
#undef GWM_FREQUENT
}

#endif
