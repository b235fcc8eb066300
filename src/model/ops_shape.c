/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only rearrange, and the integer arithmetic that exporters put around them. */
#include "src/model/ops.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <string.h>

static int identity(struct gwm_import *im)
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
    int open = -1, rc, n = gwm_in_ints(im, 1, d, GW_MODEL_MAX_RANK);

    if (n < 0) return n;
    if ((rc = gwm_attr_int(im, "allowzero", &allow_zero)) < 0) return rc;
    for (int i = 0; i < n; i++) {
        if (d[i] == 0 && !allow_zero && i < (int)x->shape.rank) d[i] = x->shape.d[i];
        if (d[i] == -1 && open < 0)
            open = i;
        else if (d[i] < 0 || d[i] > GWM_MAX_COUNT || (known *= d[i]) > GWM_MAX_COUNT)
            return gwm_op_fail(im, -EBADMSG, "a dimension of %" PRId64, d[i]);
    }
    if (open >= 0) d[open] = known ? x->count / known : 0;
    rc = as_shape(im, d, n, x->count, &s);
    return rc < 0 ? rc : gwm_result(im, gwm_reshape(im, im->in[0], &s));
}

static int flatten(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0);
    struct gwm_shape s = {.rank = 2, .d = {1, 1}};
    int64_t axis = 1;
    int rc = gwm_attr_int(im, "axis", &axis);

    if (rc < 0) return rc;
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

static int squeeze(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = {0};
    uint32_t mask;
    int rc = axes_mask(im, x.rank, false, &mask);

    if (rc == -ENOENT) /* no axes: all of size 1 */
        for (uint32_t i = 0; i < x.rank; i++) mask |= (uint32_t)(x.d[i] == 1) << i;
    else if (rc < 0)
        return rc;
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

/* Emits a copy of the input seen as `dims` with its axes permuted. */
static int emit_permute(struct gwm_import *im, const int32_t *dims, uint32_t rank, const int32_t *perm,
                        const struct gwm_shape *out)
{
    struct gwm_move *m = gwm_alloc(im->g, sizeof(*m));
    int n = m ? gwm_emit(im, GWM_MOVE, im->in, 1, out, im->node->output[0])
              : gwm_op_fail(im, -ENOMEM, "out of memory");

    if (n < 0) return n;
    gwm_move_permute(m, dims, rank, perm);
    im->g->node[n].mv.move = m;
    return gwm_result(im, gwm_settle(im, n));
}

static int transpose(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = {.rank = x.rank};
    int64_t list[GW_MODEL_MAX_RANK];
    int32_t perm[GW_MODEL_MAX_RANK];
    uint32_t seen = 0;
    int n = gwm_attr_ints(im, "perm", list, GW_MODEL_MAX_RANK);

    if (n < 0 && n != -ENOENT) return n;
    if (n >= 0 && (uint32_t)n != x.rank)
        return gwm_op_fail(im, -EBADMSG, "'perm' has %d numbers for %u dimensions", n, x.rank);
    for (uint32_t i = 0; i < x.rank; i++) {
        int64_t p = n < 0 ? x.rank - 1 - i : list[i];
        if (p < 0 || p >= x.rank || seen & 1u << p)
            return gwm_op_fail(im, -EBADMSG, "'perm' is no permutation");
        seen |= 1u << p;
        perm[i] = (int32_t)p;
        s.d[i] = x.d[p];
    }
    return emit_permute(im, x.d, x.rank, perm, &s);
}

static int depth_to_space(struct gwm_import *im)
{
    static const int32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    struct gwm_shape x = gwm_in(im, 0)->shape;
    char mode[8] = "DCR";
    int64_t r = 0;
    int rc = gwm_attr_int(im, "blocksize", &r);

    if (rc < 0 || (rc = gwm_attr_string(im, "mode", mode, sizeof(mode))) < 0) return rc;
    if (x.rank != 4 || r < 1 || r > 1024 || x.d[1] % (r * r))
        return gwm_op_fail(im, -EBADMSG, "its input does not divide into blocks of %" PRId64, r);
    int32_t b = (int32_t)r, c = x.d[1] / (b * b), h = x.d[2], w = x.d[3];
    struct gwm_shape s = {.rank = 4, .d = {x.d[0], c, h * b, w * b}};
    if (!strcmp(mode, "DCR")) return emit_permute(im, (int32_t[]){x.d[0], b, b, c, h, w}, 6, dcr, &s);
    if (!strcmp(mode, "CRD")) return emit_permute(im, (int32_t[]){x.d[0], c, b, b, h, w}, 6, crd, &s);
    return gwm_op_fail(im, -ENOTSUP, "mode '%s'", mode);
}

static int concat_ints(struct gwm_import *im)
{
    int64_t out[GW_MODEL_MAX_RANK];
    int used = 0;

    for (uint32_t i = 0; i < im->nin; i++) {
        int n = gwm_in_ints(im, i, out + used, GW_MODEL_MAX_RANK - used);
        if (n < 0) return n == -ENOENT ? gwm_op_fail(im, -EBADMSG, "input %u is missing", i) : n;
        used += n;
    }
    struct gwm_shape s = {.rank = 1, .d = {used}};
    return gwm_result(im, gwm_const(im, GWM_I64, &s, out, NULL));
}

/* The shape of the whole: equal sides but for the axis, along which they add up. */
static int concat_shape(struct gwm_import *im, int axis, struct gwm_shape *s)
{
    for (uint32_t i = 0; i < im->nin; i++) {
        const struct gwm_value *v = gwm_in(im, i);
        if (!v || v->dtype != GWM_F32 || v->shape.rank != s->rank)
            return gwm_op_fail(im, -EBADMSG, "its inputs do not fit");
        for (int k = 0; k < (int)s->rank; k++)
            if (k != axis && v->shape.d[k] != s->d[k])
                return gwm_op_fail(im, -EBADMSG, "its inputs do not fit");
        if (i) s->d[axis] += v->shape.d[axis];
        if (gwm_count(s) < 0) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    }
    return 0;
}

static int concat(struct gwm_import *im)
{
    struct gwm_shape s = gwm_in(im, 0)->shape;
    int32_t at[GW_MODEL_MAX_RANK] = {0};
    int64_t axis = 0;
    int rc = gwm_attr_int(im, "axis", &axis);

    if (rc < 0) return rc;
    if (gwm_in(im, 0)->dtype == GWM_I64) return concat_ints(im);
    rc = gwm_axis(im, axis, s.rank);
    if (rc < 0 || (axis = rc, rc = concat_shape(im, (int)axis, &s)) < 0) return rc;
    struct gwm_move *m = gwm_alloc(im->g, im->nin * sizeof(*m));
    int n = m ? gwm_emit(im, GWM_CONCAT, im->in, im->nin, &s, im->node->output[0])
              : gwm_op_fail(im, -ENOMEM, "out of memory");
    if (n < 0) return n;
    for (uint32_t i = 0; i < im->nin; i++) {
        const struct gwm_shape *box = &gwm_in(im, i)->shape;
        gwm_move_place(&m[i], box, &s, at);
        at[axis] += box->d[axis];
    }
    im->g->node[n].mv.move = m;
    return gwm_result(im, gwm_settle(im, n));
}

/* Reads how much to add before and after each dimension. */
static int read_pads(struct gwm_import *im, uint32_t rank, int64_t *begin, int64_t *end)
{
    int64_t pads[2 * GW_MODEL_MAX_RANK], axes[GW_MODEL_MAX_RANK];
    int n = gwm_in(im, 1) ? gwm_in_ints(im, 1, pads, 2 * GW_MODEL_MAX_RANK)
                          : gwm_attr_ints(im, "pads", pads, 2 * GW_MODEL_MAX_RANK);
    int naxes = gwm_in(im, 3) ? gwm_in_ints(im, 3, axes, GW_MODEL_MAX_RANK) : (int)rank;

    if (n < 0 || naxes < 0)
        return n == -ENOENT ? gwm_op_fail(im, -EBADMSG, "it has no pads") : n < 0 ? n : naxes;
    if (n != 2 * naxes) return gwm_op_fail(im, -EBADMSG, "%d pads for %d dimensions", n, naxes);
    for (int i = 0; i < naxes; i++) {
        int a = gwm_in(im, 3) ? gwm_axis(im, axes[i], rank) : i;
        if (a < 0) return a;
        if (pads[i] < 0 || pads[naxes + i] < 0 || pads[i] > GWM_MAX_SIDE || pads[naxes + i] > GWM_MAX_SIDE)
            return gwm_op_fail(im, -ENOTSUP, "negative or huge padding");
        begin[a] = pads[i];
        end[a] = pads[naxes + i];
    }
    return 0;
}

static int pad(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = x;
    int64_t begin[GW_MODEL_MAX_RANK] = {0}, end[GW_MODEL_MAX_RANK] = {0};
    int32_t at[GW_MODEL_MAX_RANK];
    char mode[16] = "constant";
    float value = 0;
    const float *p = gwm_in_floats(im, 2, 1);
    int rc = gwm_attr_string(im, "mode", mode, sizeof(mode));

    if (rc < 0 || (rc = gwm_attr_float(im, "value", &value)) < 0 ||
        (rc = read_pads(im, x.rank, begin, end)) < 0)
        return rc;
    if (strcmp(mode, "constant"))
        return gwm_op_fail(im, -ENOTSUP, "mode '%s'; only 'constant' is supported", mode);
    if (gwm_in(im, 2) && !p) return gwm_op_fail(im, -ENOTSUP, "its value must be a float32 constant");
    for (uint32_t i = 0; i < x.rank; i++) {
        int64_t side = x.d[i] + begin[i] + end[i];
        if (side > GWM_MAX_COUNT) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
        s.d[i] = (int32_t)side;
        at[i] = (int32_t)begin[i];
    }
    struct gwm_move *m = gwm_alloc(im->g, sizeof(*m));
    int n = m ? gwm_emit(im, GWM_PAD, im->in, 1, &s, im->node->output[0])
              : gwm_op_fail(im, -ENOMEM, "out of memory");
    if (n < 0) return n;
    gwm_move_place(m, &x, &s, at);
    im->g->node[n].mv.move = m;
    im->g->node[n].mv.pad_value = p ? *p : value;
    return gwm_result(im, gwm_settle(im, n));
}

static int constant(struct gwm_import *im)
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

static int shape(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape;
    int64_t start = 0, end = x.rank, d[GW_MODEL_MAX_RANK];
    int rc = gwm_attr_int(im, "start", &start);

    if (rc < 0 || (rc = gwm_attr_int(im, "end", &end)) < 0) return rc;
    start = start < -(int64_t)x.rank ? 0 : start < 0 ? start + x.rank : start;
    end = end > x.rank ? x.rank : end < 0 ? end + x.rank : end;
    struct gwm_shape s = {.rank = 1};
    for (int64_t i = start; i < end; i++) d[s.d[0]++] = x.d[i];
    return gwm_result(im, gwm_const(im, GWM_I64, &s, d, NULL));
}

static int gather(struct gwm_import *im)
{
    int64_t data[GW_MODEL_MAX_RANK], at[GW_MODEL_MAX_RANK], axis = 0;
    int rc = gwm_attr_int(im, "axis", &axis);

    if (rc < 0) return rc;
    if (gwm_in(im, 0)->dtype != GWM_I64 || (axis != 0 && axis != -1))
        return gwm_op_fail(im, -ENOTSUP, "only picking from constant shapes is supported");
    int n = gwm_in_ints(im, 0, data, GW_MODEL_MAX_RANK),
        k = n < 0 ? n : gwm_in_ints(im, 1, at, GW_MODEL_MAX_RANK);
    if (k < 0) return k;
    for (int i = 0; i < k; i++) {
        int64_t a = at[i] < 0 ? at[i] + n : at[i];
        if (a < 0 || a >= n) return gwm_op_fail(im, -EBADMSG, "index %" PRId64 " of a list of %d", at[i], n);
        at[i] = data[a];
    }
    struct gwm_shape s = gwm_in(im, 1)->shape;
    return gwm_result(im, gwm_const(im, GWM_I64, &s, at, NULL));
}

static int cast(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0);
    struct gwm_shape s = x->shape;
    int64_t to = 0;
    int rc = gwm_attr_int(im, "to", &to);

    if (rc < 0) return rc;
    bool same = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
                    ? x->dtype == GWM_F32
                    : to == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 && x->dtype == GWM_I64;
    if (same) return gwm_result(im, gwm_reshape(im, im->in[0], &s));
    if (to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || !x->count)
        return gwm_op_fail(im, -ENOTSUP, "conversion to %s",
                           gwm_type_name(to < 0 || to > INT32_MAX ? -1 : (int32_t)to));
    const int64_t *from = x->data;
    int32_t n = x->count;
    void *room;
    int v = gwm_const(im, GWM_F32, &s, NULL, &room);
    for (int32_t i = 0; v >= 0 && i < n; i++) ((float *)room)[i] = (float)from[i];
    return gwm_result(im, v);
}

const struct gwm_operator gwm_ops_shape[] = {
    {"Identity", 1, 1, true, "", identity},
    {"Dropout", 1, 3, false, "ratio seed ", identity},
    {"Reshape", 2, 2, true, "allowzero ", reshape},
    {"Flatten", 1, 1, false, "axis ", flatten},
    {"Squeeze", 1, 2, true, "axes ", squeeze},
    {"Unsqueeze", 1, 2, true, "axes ", unsqueeze},
    {"Transpose", 1, 1, false, "perm ", transpose},
    {"DepthToSpace", 1, 1, false, "blocksize mode ", depth_to_space},
    {"Concat", 1, GWM_MAX_INPUTS, true, "axis ", concat},
    {"Pad", 1, 4, false, "mode pads value ", pad},
    {"Constant", 0, 0, true, "value value_float value_floats value_int value_ints ", constant},
    {"Shape", 1, 1, true, "start end ", shape},
    {"Gather", 2, 2, true, "axis ", gather},
    {"Cast", 1, 1, true, "to ", cast},
    {0},
};
