/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that gpu.c hands to the kernels. Memory is named by address, or by where the address is found
 * when the kernel runs. */
#ifndef GW_MODEL_KERNELS_H
#define GW_MODEL_KERNELS_H

#include <gpuwire/kernel.h>
#include <gpuwire/model.h>

#include "src/model/graph/activate.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/half.h"

struct gwm_ref {
    void *at;
    void *const *slot; /* not NULL: the address lies there */
    uint32_t type;     /* enum gw_dtype of the elements */
    uint32_t pad;
};

/* ---- convolution as a matrix product: weights (channels × taps) times pixels (taps × positions) ---- */

#define GWM_CONV_THREADS 128
#define GWM_CONV_STEP    8 /* taps at a time; the tables below are padded to it */

/* One tap of the kernel: a channel, a row and a column. */
struct gwm_tap {
    int32_t offset;   /* in the input, from the window's first element */
    int32_t row, col; /* from there; row is GWM_NO_TAP in the padding of the table */
    int32_t pad;
} __attribute__((aligned(16))); /* read at once */
#define GWM_NO_TAP (1 << 30)

struct gwm_conv_args {
    struct gwm_ref x, y;       /* fp32 in C order, as is add */
    struct gwm_ref add;        /* added before the activation; laid out as y without its blocks */
    const float *weight;       /* groups × taps × mpad: a tap's weights for all channels lie together */
    const float *bias;         /* oc */
    const struct gwm_tap *tap; /* taps */
    float *partial;            /* splits × n × oc × positions, when splits > 1 */
    struct gwm_act act;
    int32_t n, c, h, w, oh, ow, oc, group;
    int32_t taps, mpad; /* both padded */
    int32_t sh, sw, top, left;
    int32_t tiles_m, tiles_n;       /* of a group's channels, of positions */
    int32_t splits, taps_per_split; /* the sum over taps cut in pieces, for small outputs */
    int32_t block;                  /* depth-to-space by this much while storing; 1 is none */
    int32_t block_first;            /* channel = (row in block, column, plane) and not (plane, row, column) */
};

/* One thread per output element, any layout and element type. */
struct gwm_direct_args {
    struct gwm_ref x, y, add; /* add may be NULL; laid out as y */
    const float *weight;      /* as in the file; of the depthwise kernel: taps × channels */
    const float *bias;        /* oc */
    struct gwm_act act;
    struct gwm_window win;
    int32_t oc, group, count;
    int32_t last;  /* channels lie together: N H W C */
    int32_t share; /* warps that share the rows of a filter (depthwise kernels that compute neighbours) */
};

struct gwm_finish_args { /* adds up the pieces of a convolution */
    struct gwm_conv_args conv;
    int32_t count;
};

struct gwm_pool_args {
    struct gwm_ref x, y;
    struct gwm_window win;
    int32_t average, count_pads, count;
    int32_t last; /* as above */
};

struct gwm_mean_args { /* of whole planes: a block per GWM_MEAN_LAST channels, or per channel */
    struct gwm_ref x, y;
    int32_t c, size, last; /* size of a plane */
};
#define GWM_MEAN_LAST  8
#define GWM_MEAN_AHEAD 8 /* elements that a thread has asked for at a time */
#define GWM_RUN        4 /* neighbours of a row that a depthwise kernel computes at a time */
#define GWM_RUNS_WARPS 8 /* of its blocks, at most */
#define GWM_ROW_MAX    512
#define GWM_NORM_MAX   32
#define GWM_SHORT_MAX  1024 /* elements of a run that a warp normalises */
#define GWM_BLOCK_MAX  512  /* threads of kernels that add up over a block */

struct gwm_gemm_args {           /* one block per element of y */
    struct gwm_ref a, b, y, add; /* add may be NULL; laid out as y */
    const float *bias;           /* or NULL */
    struct gwm_act act;
    struct gwm_broadcast batch;
    int32_t a_start, b_start, y_step, ym; /* y: from one product, and one row, to the next */
    float alpha;
    int32_t m, n, k, am, ak, bk, bn; /* strides of a and b along those axes */
    int32_t products;
};
#define GWM_THIN_ROWS  4  /* that the thin kernel computes at a time */
#define GWM_THIN_WARPS 16 /* of a block, at most */

struct gwm_unary_args {
    struct gwm_ref x, y;
    struct gwm_act act;
    int32_t count;
};

struct gwm_fill_args {
    struct gwm_ref y;
    int64_t i; /* the number, where y holds integers */
    float f;   /* and where it holds floats */
    int32_t count;
};

struct gwm_binary_args {
    struct gwm_ref a, b, y;
    struct gwm_broadcast bc;
    struct gwm_act act;
    int32_t kind, count;
};

struct gwm_move_args {
    struct gwm_ref x, y;
    struct gwm_move move;
    int32_t count;
};

struct gwm_softmax_args { /* one block per row */
    struct gwm_ref x, y;
    struct gwm_softmax s;
};

/* Where the rows of a head lie: strides in elements. */
struct gwm_lines {
    int32_t start, batch, head, row;
};

struct gwm_attention_args { /* q, k and v are fp16, or fp32 that is rounded to TF32 */
    struct gwm_ref q, k, v, y;
    struct gwm_lines q_at, k_at, v_at, y_at;
    float scale, by; /* of the scores, of the result */
    int32_t heads, queries, keys;
    int32_t rows; /* queries of a block: 16 for each of its warps */
};

struct gwm_norm_args { /* one block per run */
    struct gwm_ref x, scale, bias, y;
    struct gwm_norm s;
    struct gwm_act act;
};

/* How many lanes of a warp normalise a run of n elements. */
GW_FN int32_t gwm_norm_lanes(int32_t n)
{
    return n <= GWM_SHORT_MAX / 4 ? 8 : 32;
}

struct gwm_reduce_args {
    struct gwm_ref x, y;
    struct gwm_reduce r;
};

struct gwm_cumsum_args {
    struct gwm_ref x, y;
    struct gwm_cumsum s;
};

struct gwm_gather_args {
    struct gwm_ref x, index, y;
    struct gwm_gather s;
    int32_t count;
};

struct gwm_interp_args {
    struct gwm_ref x, y;
    const int32_t *index;
    const float *weight;
    int32_t n, inner, to, taps, count;
};

struct gwm_select_args {
    struct gwm_ref c, a, b, y;
    struct gwm_select s;
    int32_t count;
};

struct gwm_convert_args {
    struct gwm_ref x, y;
    uint32_t to; /* enum gw_dtype: the values, not the memory */
    int32_t count;
    uint32_t positive; /* 1: integers of 64 bits are uint64 */
};

GW_KERNEL_DECLARE(gwm_conv_64x128);
GW_KERNEL_DECLARE(gwm_conv_32x128);
GW_KERNEL_DECLARE(gwm_conv_16x128);
GW_KERNEL_DECLARE(gwm_conv_64x32);
GW_KERNEL_DECLARE(gwm_conv_finish);
GW_KERNEL_DECLARE(gwm_conv_direct);
GW_KERNEL_DECLARE(gwm_conv_depthwise);
GW_KERNEL_DECLARE(gwm_conv_depthwise_3_1);
GW_KERNEL_DECLARE(gwm_conv_depthwise_3_2);
GW_KERNEL_DECLARE(gwm_conv_depthwise_5_1);
GW_KERNEL_DECLARE(gwm_conv_depthwise_5_2);
GW_KERNEL_DECLARE(gwm_conv_depthwise_7_1);
GW_KERNEL_DECLARE(gwm_pool_kernel);
GW_KERNEL_DECLARE(gwm_mean_kernel);
GW_KERNEL_DECLARE(gwm_gemm_kernel);
GW_KERNEL_DECLARE(gwm_thin_kernel);
GW_KERNEL_DECLARE(gwm_unary_kernel);
GW_KERNEL_DECLARE(gwm_fill_kernel);
GW_KERNEL_DECLARE(gwm_binary_kernel);
GW_KERNEL_DECLARE(gwm_binary8_kernel);
GW_KERNEL_DECLARE(gwm_move_kernel);
GW_KERNEL_DECLARE(gwm_move8_kernel);
GW_KERNEL_DECLARE(gwm_softmax_kernel);
GW_KERNEL_DECLARE(gwm_softmax_row_kernel);
GW_KERNEL_DECLARE(gwm_attention_32);
GW_KERNEL_DECLARE(gwm_attention_64);
GW_KERNEL_DECLARE(gwm_attention_80);
GW_KERNEL_DECLARE(gwm_attention_96);
GW_KERNEL_DECLARE(gwm_attention_128);
GW_KERNEL_DECLARE(gwm_attention_tf32_32);
GW_KERNEL_DECLARE(gwm_attention_tf32_64);
GW_KERNEL_DECLARE(gwm_attention_tf32_80);
GW_KERNEL_DECLARE(gwm_attention_tf32_96);
GW_KERNEL_DECLARE(gwm_attention_tf32_128);
GW_KERNEL_DECLARE(gwm_deconv_kernel);
GW_KERNEL_DECLARE(gwm_norm_kernel);
GW_KERNEL_DECLARE(gwm_norm_row_kernel);
GW_KERNEL_DECLARE(gwm_norm_short_kernel);
GW_KERNEL_DECLARE(gwm_reduce_kernel);
GW_KERNEL_DECLARE(gwm_reduce_thread_kernel);
GW_KERNEL_DECLARE(gwm_cumsum_kernel);
GW_KERNEL_DECLARE(gwm_gather_kernel);
GW_KERNEL_DECLARE(gwm_interp_kernel);
GW_KERNEL_DECLARE(gwm_select_kernel);
GW_KERNEL_DECLARE(gwm_binary_int_kernel);
GW_KERNEL_DECLARE(gwm_unary_int_kernel);
GW_KERNEL_DECLARE(gwm_convert_kernel);

/* ---- for kernels ---- */

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
GW_DEV int gwm_is_wide(uint32_t type)
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
