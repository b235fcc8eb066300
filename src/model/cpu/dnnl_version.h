/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl_version.h: what differs between oneDNN 2.x and 3.x: who owns a memory descriptor, and how primitives
 * are described. */
#ifndef GW_MODEL_DNNL_VERSION_H
#define GW_MODEL_DNNL_VERSION_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t md_t; /* owned: md_free */
typedef const_dnnl_memory_desc_t const_md_t;
#define hardswish_a (1.f / 6)
#define hardswish_b 0.5f

static inline md_t md_new(const dnnl_dims_t dims, int rank, dnnl_format_tag_t tag)
{
    md_t md = NULL;

    return dnnl_memory_desc_create_with_tag(&md, rank, dims, dnnl_f32, tag) ? NULL : md;
}

static inline md_t md_strided(const dnnl_dims_t dims, int rank, const dnnl_dims_t strides)
{
    md_t md = NULL;

    return dnnl_memory_desc_create_with_strides(&md, rank, dims, dnnl_f32, strides) ? NULL : md;
}

static inline md_t md_copy(const_md_t from)
{
    md_t md = NULL;

    return dnnl_memory_desc_clone(&md, from) ? NULL : md;
}

static inline void md_free(md_t md)
{
    if (md) dnnl_memory_desc_destroy(md);
}

#else

typedef dnnl_memory_desc_t *md_t;
typedef const dnnl_memory_desc_t *const_md_t;
#define hardswish_a 0 /* it has none: the library knows no other than ours */
#define hardswish_b 0

static inline md_t md_new(const dnnl_dims_t dims, int rank, dnnl_format_tag_t tag)
{
    md_t md = malloc(sizeof(*md));

    if (md && dnnl_memory_desc_init_by_tag(md, rank, dims, dnnl_f32, tag)) {
        free(md);
        return NULL;
    }
    return md;
}

static inline md_t md_strided(const dnnl_dims_t dims, int rank, const dnnl_dims_t strides)
{
    md_t md = malloc(sizeof(*md));

    if (md && dnnl_memory_desc_init_by_strides(md, rank, dims, dnnl_f32, strides)) {
        free(md);
        return NULL;
    }
    return md;
}

static inline md_t md_copy(const_md_t from)
{
    md_t md = malloc(sizeof(*md));

    return md ? memcpy(md, from, sizeof(*md)) : NULL;
}

static inline void md_free(md_t md)
{
    free(md);
}

#endif

/* The tensors and numbers of a forward primitive; what a kind has no use for stays NULL. */
struct shape_of {
    md_t src, weight, bias, dst;
    dnnl_dims_t stride, kernel, dilation, left, right;
    dnnl_alg_kind_t pooling;
};

#if DNNL_VERSION_MAJOR >= 3

static inline dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(
        pd, e, dnnl_forward_inference, dnnl_convolution_direct, s->src, s->weight, s->bias, s->dst, s->stride,
        s->dilation, s->left, s->right, attr);
}

static inline dnnl_status_t pool_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    return dnnl_pooling_forward_primitive_desc_create(pd, e, dnnl_forward_inference, s->pooling, s->src,
                                                      s->dst, s->stride, s->kernel, s->dilation, s->left,
                                                      s->right, attr);
}

static inline dnnl_status_t gemm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    return dnnl_inner_product_forward_primitive_desc_create(pd, e, dnnl_forward_inference, s->src, s->weight,
                                                            s->bias, s->dst, attr);
}

static inline dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                      const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, e, s->src, s->weight, s->bias, s->dst, attr);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t eltwise_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_alg_kind_t alg,
                                       const_md_t md, float a, float b, const_dnnl_primitive_attr_t attr)
{
    return dnnl_eltwise_forward_primitive_desc_create(pd, e, dnnl_forward_inference, alg, md, md, a, b, attr);
}

static inline dnnl_status_t binary_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_alg_kind_t alg,
                                      const_md_t a, const_md_t b, const_md_t dst,
                                      const_dnnl_primitive_attr_t attr)
{
    return dnnl_binary_primitive_desc_create(pd, e, alg, a, b, dst, attr);
}

/* scale x + shift for each channel. */
static inline dnnl_status_t affine_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t md,
                                      const_dnnl_primitive_attr_t attr)
{
    return dnnl_batch_normalization_forward_primitive_desc_create(
        pd, e, dnnl_forward_inference, md, md, 0, dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift,
        attr);
}

static inline dnnl_status_t softmax_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, bool log, const_md_t md,
                                       int axis, const_dnnl_primitive_attr_t attr)
{
    return dnnl_softmax_forward_primitive_desc_create(
        pd, e, dnnl_forward_inference, log ? dnnl_softmax_log : dnnl_softmax_accurate, md, md, axis, attr);
}

static inline dnnl_status_t norm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t md, float epsilon,
                                    const_dnnl_primitive_attr_t attr)
{
    return dnnl_layer_normalization_forward_primitive_desc_create(
        pd, e, dnnl_forward_inference, md, md, NULL, epsilon, dnnl_use_scale | dnnl_use_shift, attr);
}

static inline dnnl_status_t concat_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t dst, int n,
                                      int axis, const const_md_t *src, const_dnnl_primitive_attr_t attr)
{
    return dnnl_concat_primitive_desc_create(pd, e, dst, n, axis, src, attr);
}

static inline dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, alg, a, b);
}

#else

static inline dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t err = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, s->src, s->weight, s->bias, s->dst, s->stride,
        s->dilation, s->left, s->right);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t pool_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t d;
    dnnl_status_t err =
        dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_inference, s->pooling, s->src, s->dst, s->stride,
                                          s->kernel, s->dilation, s->left, s->right);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t gemm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t d;
    dnnl_status_t err =
        dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, s->src, s->weight, s->bias, s->dst);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                      const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t err = dnnl_matmul_desc_init(&d, s->src, s->weight, s->bias, s->dst);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}

static inline dnnl_status_t eltwise_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_alg_kind_t alg,
                                       const_md_t md, float a, float b, const_dnnl_primitive_attr_t attr)
{
    dnnl_eltwise_desc_t d;
    dnnl_status_t err = dnnl_eltwise_forward_desc_init(&d, dnnl_forward_inference, alg, md, a, b);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t binary_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dnnl_alg_kind_t alg,
                                      const_md_t a, const_md_t b, const_md_t dst,
                                      const_dnnl_primitive_attr_t attr)
{
    dnnl_binary_desc_t d;
    dnnl_status_t err = dnnl_binary_desc_init(&d, alg, a, b, dst);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t affine_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t md,
                                      const_dnnl_primitive_attr_t attr)
{
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t err = dnnl_batch_normalization_forward_desc_init(
        &d, dnnl_forward_inference, md, 0, dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t softmax_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, bool log, const_md_t md,
                                       int axis, const_dnnl_primitive_attr_t attr)
{
    dnnl_softmax_v2_desc_t d;
    dnnl_status_t err = dnnl_softmax_v2_forward_desc_init(
        &d, dnnl_forward_inference, log ? dnnl_softmax_log : dnnl_softmax_accurate, md, md, axis);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t norm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t md, float epsilon,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_layer_normalization_desc_t d;
    dnnl_status_t err = dnnl_layer_normalization_forward_desc_init(&d, dnnl_forward_inference, md, NULL,
                                                                   epsilon, dnnl_use_scale | dnnl_use_shift);
    return err ? err : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t concat_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const_md_t dst, int n,
                                      int axis, const const_md_t *src, const_dnnl_primitive_attr_t attr)
{
    dnnl_memory_desc_t *all = calloc((size_t)n, sizeof(*all)); /* it wants them side by side */
    dnnl_status_t err = all ? dnnl_success : dnnl_out_of_memory;

    for (int i = 0; i < n && !err; i++) all[i] = *src[i];
    if (!err) err = dnnl_concat_primitive_desc_create(pd, dst, n, axis, all, attr, e);
    free(all);
    return err;
}

static inline dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, a, b);
}

#endif

#endif
