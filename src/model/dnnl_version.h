/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl_version.h: what differs between oneDNN 2.x and 3.x: who owns a memory descriptor, and how primitives are described. */
#ifndef GW_MODEL_DNNL_VERSION_H
#define GW_MODEL_DNNL_VERSION_H

#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t md_t; /* owned: md_free */
typedef const_dnnl_memory_desc_t const_md_t;

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

static inline dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, alg, a, b);
}

static inline dnnl_status_t append_hswish(dnnl_post_ops_t ops)
{
    return append_act(ops, dnnl_eltwise_hardswish, 1.f / 6, 0.5f);
}

#else

static inline dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t rc = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, s->src, s->weight, s->bias, s->dst, s->stride,
        s->dilation, s->left, s->right);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t pool_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t d;
    dnnl_status_t rc =
        dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_inference, s->pooling, s->src, s->dst, s->stride,
                                          s->kernel, s->dilation, s->left, s->right);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t gemm_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                    const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t d;
    dnnl_status_t rc =
        dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, s->src, s->weight, s->bias, s->dst);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, const struct shape_of *s,
                                      const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t rc = dnnl_matmul_desc_init(&d, s->src, s->weight, s->bias, s->dst);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

static inline dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, a, b);
}

static inline dnnl_status_t append_hswish(dnnl_post_ops_t ops)
{
    return append_act(ops, dnnl_eltwise_hardswish, 0, 0); /* it knows no other than ours */
}

#endif

#endif
