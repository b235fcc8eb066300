/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that change the shape alone, and those that make constants of shapes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/model/import/ops.h"
#include "src/model/import/tensor.h"

static int ops_identity(struct gwm_import *im)
{
    struct gwm_shape s = gwm_in(im, 0)->shape;
    const struct gwm_value *training = gwm_in(im, 2);

    if (training && (!training->data || training->dtype != GWM_I64 || training->count != 1 ||
                     *(const int64_t *)training->data))
        return gwm_op_fail(im, -ENOTSUP, "training mode is not supported");
    return gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

/* Turns a list of sizes into a shape with as many elements as `count`. */
static int as_shape(struct gwm_import *im, const int64_t *d, int rank, int32_t count, struct gwm_shape *s)
{
    memset(s, 0, sizeof(*s));
    s->rank = (uint32_t)rank;
    for (int i = 0; i < rank; i++) {
        if (d[i] < 0 || d[i] > GWM_MAX_COUNT)
            return gwm_op_fail(im, -EBADMSG, "a dimension of %" PRId64, d[i]);
        s->d[i] = (int32_t)d[i];
    }
    if (gwm_count(s) != count)
        return gwm_op_fail(im, -EBADMSG, "the new shape does not hold the input's %d elements", count);
    return 0;
}

static int reshape(struct gwm_import *im)
{
    int64_t d[GW_MODEL_MAX_RANK], allow_zero = 0, known = 1;
    const struct gwm_value *x = gwm_in(im, 0);
    struct gwm_shape s;
    int open = -1, err, n = gwm_in_ints(im, 1, d, GW_MODEL_MAX_RANK);

    if (n < 0) return n;
    if ((err = gwm_attr_int(im, "allowzero", &allow_zero)) < 0) return err;
    for (int i = 0; i < n; i++) {
        if (d[i] == 0 && !allow_zero && i < (int)x->shape.rank) d[i] = x->shape.d[i];
        if (d[i] == -1 && open < 0)
            open = i;
        else if (d[i] < 0 || d[i] > GWM_MAX_COUNT || (known *= d[i]) > GWM_MAX_COUNT)
            return gwm_op_fail(im, -EBADMSG, "a dimension of %" PRId64, d[i]);
    }
    if (open >= 0) d[open] = known ? x->count / known : 0;
    err = as_shape(im, d, n, x->count, &s);
    return err < 0 ? err : gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

static int flatten(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0);
    struct gwm_shape s = {.rank = 2, .d = {1, 1}};
    int64_t axis = 1;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0) return err;
    if (axis < 0) axis += x->shape.rank;
    if (axis < 0 || axis > x->shape.rank)
        return gwm_op_fail(im, -EBADMSG, "axis outside the input's dimensions");
    for (uint32_t i = 0; i < x->shape.rank; i++) s.d[i >= axis] *= x->shape.d[i];
    return gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

/* The axes of Squeeze and Unsqueeze as bits: an attribute before operator set 13, an input since. */
static int axes_mask(struct gwm_import *im, uint32_t rank_or_extra, bool extra, uint32_t *mask)
{
    int64_t axes[GW_MODEL_MAX_RANK];
    int n = gwm_in(im, 1) ? gwm_in_ints(im, 1, axes, GW_MODEL_MAX_RANK)
                          : gwm_attr_ints(im, "axes", axes, GW_MODEL_MAX_RANK);
    uint32_t rank = rank_or_extra + (extra && n > 0 ? (uint32_t)n : 0);

    *mask = 0;
    if (n < 0) return n;
    if (rank > GW_MODEL_MAX_RANK) return gwm_op_fail(im, -ENOTSUP, "more than 8 dimensions");
    for (int i = 0; i < n; i++) {
        int a = gwm_axis(im, axes[i], rank);
        if (a < 0) return a;
        if (*mask & 1u << a) return gwm_op_fail(im, -EBADMSG, "an axis comes twice");
        *mask |= 1u << a;
    }
    return (int)rank;
}

static int ops_squeeze(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = {0};
    uint32_t mask;
    int err = axes_mask(im, x.rank, false, &mask);

    if (err == -ENOENT) /* no axes: all of size 1 */
        for (uint32_t i = 0; i < x.rank; i++) mask |= (uint32_t)(x.d[i] == 1) << i;
    else if (err < 0)
        return err;
    for (uint32_t i = 0; i < x.rank; i++) {
        if (!(mask >> i & 1))
            s.d[s.rank++] = x.d[i];
        else if (x.d[i] != 1)
            return gwm_op_fail(im, -EBADMSG, "axis %u is %d, not 1", i, x.d[i]);
    }
    return gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

static int unsqueeze(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = {0};
    uint32_t mask, from = 0;
    int rank = axes_mask(im, x.rank, true, &mask);

    if (rank < 0) return rank == -ENOENT ? gwm_op_fail(im, -EBADMSG, "it has no axes") : rank;
    for (int i = 0; i < rank; i++) s.d[i] = mask >> i & 1 ? 1 : x.d[from++];
    s.rank = (uint32_t)rank;
    return gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

static int ops_constant(struct gwm_import *im)
{
    const Onnx__AttributeProto *a = im->node->n_attribute == 1 ? im->node->attribute[0] : NULL;
    struct gwm_shape s = {0};

    if (!a) return gwm_op_fail(im, -EBADMSG, "it has no value");
    if (a->t) return gwm_result(im, gwm_tensor(im, a->t));
    if (!strcmp(a->name, "value_float")) return gwm_result(im, gwm_const(im, GWM_F32, &s, &a->f, NULL));
    if (!strcmp(a->name, "value_int")) return gwm_result(im, gwm_const(im, GWM_I64, &s, &a->i, NULL));
    bool ints = !strcmp(a->name, "value_ints");
    size_t n = ints ? a->n_ints : a->n_floats;
    if (n > GWM_MAX_COUNT || (!ints && (strcmp(a->name, "value_floats") || !n)))
        return gwm_op_fail(im, -EBADMSG, "it has no value");
    s.rank = 1;
    s.d[0] = (int32_t)n;
    return gwm_result(
        im, gwm_const(im, ints ? GWM_I64 : GWM_F32, &s, ints ? (void *)a->ints : (void *)a->floats, NULL));
}

static int ops_shape(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape;
    int64_t start = 0, end = x.rank, d[GW_MODEL_MAX_RANK];
    int err = gwm_attr_int(im, "start", &start);

    if (err < 0 || (err = gwm_attr_int(im, "end", &end)) < 0) return err;
    start = start < -(int64_t)x.rank ? 0 : start < 0 ? start + x.rank : start;
    end = end > x.rank ? x.rank : end < 0 ? end + x.rank : end;
    struct gwm_shape s = {.rank = 1};
    for (int64_t i = start; i < end; i++) d[s.d[0]++] = x.d[i];
    return gwm_result(im, gwm_const(im, GWM_I64, &s, d, NULL));
}

static int size(struct gwm_import *im)
{
    int64_t count = gwm_in(im, 0)->count;
    struct gwm_shape s = {0};

    return gwm_result(im, gwm_const(im, GWM_I64, &s, &count, NULL));
}

/* A constant of one value all over, as a view's worth of it: Expand would do the same at run time. */
static int constant_of_shape(struct gwm_import *im)
{
    const Onnx__AttributeProto *a = gwm_attr(im, "value");
    int64_t d[GW_MODEL_MAX_RANK];
    int n = gwm_in_ints(im, 0, d, GW_MODEL_MAX_RANK), from = -1;
    struct gwm_shape s = {0};
    void *room;

    if (n < 0) return n;
    if (a && !a->t) return gwm_op_fail(im, -EBADMSG, "its value is no tensor");
    if (a && (from = gwm_tensor(im, a->t)) < 0) return from;
    if (a && im->g->value[from].count != 1) return gwm_op_fail(im, -EBADMSG, "its value is not one number");
    s.rank = (uint32_t)n;
    for (int i = 0; i < n; i++) {
        if (d[i] < 0 || d[i] > GWM_MAX_COUNT)
            return gwm_op_fail(im, -EBADMSG, "a dimension of %" PRId64, d[i]);
        s.d[i] = (int32_t)d[i];
    }
    if (gwm_count(&s) < 0) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    uint32_t dtype = a ? im->g->value[from].dtype : GWM_F32;
    size_t width = gw_dtype_bytes(dtype);
    int v = gwm_const(im, dtype, &s, NULL, &room);
    if (v < 0) return gwm_op_fail(im, v, "out of memory: its constant result is too large");
    for (int32_t i = 0; a && i < gwm_count(&s); i++)
        memcpy((char *)room + (size_t)i * width, im->g->value[from].data, width);
    if (a) im->g->value[v].type = im->g->value[from].type;
    return gwm_result(im, v);
}

static int ops_range(struct gwm_import *im)
{
    const struct gwm_value *v[3];
    long double n[3], count; /* these hold every integer */
    void *room;

    for (uint32_t i = 0; i < 3; i++) {
        v[i] = gwm_in(im, i);
        if (!v[i]->data || v[i]->count != 1 || v[i]->dtype != v[0]->dtype)
            return gwm_op_fail(im, -ENOTSUP, "its inputs must be constant numbers of one type");
        n[i] = v[0]->dtype == GWM_F32   ? (long double)*(const float *)v[i]->data
               : v[0]->dtype == GWM_F64 ? (long double)*(const double *)v[i]->data
                                        : (long double)*(const int64_t *)v[i]->data;
    }
    uint32_t dtype = v[0]->dtype, type = v[0]->type;
    count = n[2] != 0 ? ceill((n[1] - n[0]) / n[2]) : -1;
    if (!(count >= 0 && count <= GWM_MAX_COUNT)) {
        if (!(count < 0) || n[2] == 0) return gwm_op_fail(im, -ENOTSUP, "more than 2^28 elements");
        count = 0;
    }
    struct gwm_shape s = {.rank = 1, .d = {(int32_t)count}};
    int out = gwm_const(im, dtype, &s, NULL, &room);
    if (out < 0) return gwm_op_fail(im, out, "out of memory: its constant result is too large");
    for (int32_t i = 0; i < s.d[0]; i++) {
        if (dtype == GWM_F32)
            ((float *)room)[i] = (float)(n[0] + i * n[2]);
        else if (dtype == GWM_F64)
            ((double *)room)[i] = (double)(n[0] + i * n[2]);
        else
            ((int64_t *)room)[i] = (int64_t)(n[0] + i * n[2]);
    }
    im->g->value[out].type = type;
    return gwm_result(im, out);
}

const struct gwm_operator gwm_ops_shape[] = {
    {"Identity", 1, 1, true, "", ops_identity},
    {"Dropout", 1, 3, GWM_REALS, "ratio seed ", ops_identity},
    {"Reshape", 2, 2, true, "allowzero ", reshape},
    {"Flatten", 1, 1, true, "axis ", flatten},
    {"Squeeze", 1, 2, true, "axes ", ops_squeeze},
    {"Unsqueeze", 1, 2, true, "axes ", unsqueeze},
    {"Constant", 0, 0, true, "value value_float value_floats value_int value_ints ", ops_constant},
    {"ConstantOfShape", 1, 1, true, "value ", constant_of_shape},
    {"Range", 3, 3, true, "", ops_range},
    {"Shape", 1, 1, true, "start end ", ops_shape},
    {"Size", 1, 1, true, "", size},
    {0},
};
