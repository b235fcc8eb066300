/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample: one axis after the other, each output position a weighted sum of a few input
 * positions. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/model/import/ops.h"

enum method { NEAREST, LINEAR, CUBIC };

struct resize {
    enum method method;
    char coordinates[32], rounding[24];
    float cubic_a;
    bool exclude_outside;
    float scale[GW_MODEL_MAX_RANK];
    int64_t side[GW_MODEL_MAX_RANK]; /* of the result */
};

/* Where output position i lies in the input. In single precision, as ONNX Runtime has it: which of two
 * positions is nearest may depend on the last bit. */
static double position(const struct resize *r, int axis, int64_t i, int64_t in)
{
    float s = r->scale[axis], out = (float)r->side[axis], half = ((float)i + 0.5f) / s - 0.5f;

    if (!strcmp(r->coordinates, "align_corners"))
        return out > 1 ? (double)((float)i * (float)(in - 1) / (out - 1)) : 0;
    if (!strcmp(r->coordinates, "asymmetric")) return (double)((float)i / s);
    if (!strcmp(r->coordinates, "pytorch_half_pixel") && out <= 1) return 0;
    if (!strcmp(r->coordinates, "half_pixel_symmetric"))
        return (double)((float)in / 2 * (1 - out / (s * (float)in)) + ((float)i + 0.5f) / s - 0.5f);
    return (double)half;
}

static int64_t ops_resize_nearest(const struct resize *r, double x)
{
    if (!strcmp(r->rounding, "floor")) return (int64_t)floor(x);
    if (!strcmp(r->rounding, "ceil")) return (int64_t)ceil(x);
    if (!strcmp(r->rounding, "round_prefer_ceil")) return (int64_t)floor(x + 0.5);
    return (int64_t)ceil(x - 0.5);
}

/* Weight of an input position at this distance from the output's, with `a` as the format has it. */
static double ops_resize_cubic(double d, double a)
{
    d = fabs(d);
    if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/* The taps of one output position. */
static void taps_at(const struct resize *r, double x, int64_t in, int32_t *index, float *weight)
{
    int taps = r->method == NEAREST ? 1 : r->method == LINEAR ? 2 : 4;
    int64_t first = r->method == NEAREST ? ops_resize_nearest(r, x) : (int64_t)floor(x) - (taps / 2 - 1);
    double sum = 0;

    for (int t = 0; t < taps; t++) {
        int64_t at = first + t;
        double d = x - (double)at, w = taps == 1   ? 1
                                       : taps == 2 ? 1 - fabs(d)
                                                   : ops_resize_cubic(d, (double)r->cubic_a);
        if (r->exclude_outside && (at < 0 || at >= in)) w = 0;
        index[t] = (int32_t)(at < 0 ? 0 : at >= in ? in - 1 : at);
        weight[t] = (float)w;
        sum += w;
    }
    for (int t = 0; t < taps && r->exclude_outside && sum != 0; t++)
        weight[t] = (float)((double)weight[t] / sum);
}

static int ops_resize_axis(struct gwm_import *im, const struct resize *r, int x, int axis)
{
    struct gwm_shape s = im->g->value[x].shape;
    struct gwm_interp q = {.outer = 1,
                           .n = s.d[axis],
                           .inner = 1,
                           .taps = r->method == NEAREST  ? 1
                                   : r->method == LINEAR ? 2
                                                         : 4};

    q.count = (int32_t)r->side[axis];
    for (int i = 0; i < (int)s.rank; i++) {
        if (i < axis) q.outer *= s.d[i];
        if (i > axis) q.inner *= s.d[i];
    }
    size_t n = (size_t)q.count * (size_t)q.taps;
    int32_t *index = gwm_alloc(im->g, n * sizeof(*index));
    float *weight = index ? gwm_alloc(im->g, n * sizeof(*weight)) : NULL;
    if (!weight) return gwm_op_fail(im, -ENOMEM, "out of memory");
    for (int32_t i = 0; i < q.count; i++)
        taps_at(r, position(r, axis, i, q.n), q.n, index + i * q.taps, weight + i * q.taps);
    q.index = index;
    q.weight = weight;
    s.d[axis] = q.count;
    int node = gwm_emit(im, GWM_INTERP, &x, 1, &s, "");
    if (node < 0) return node;
    im->g->node[node].interp = q;
    return gwm_settle(im, node);
}

/* The method, and how coordinates are found; 0 or an error. */
static int read_method(struct gwm_import *im, struct resize *r)
{
    char mode[16] = "nearest";
    int64_t exclude = 0, antialias = 0;
    int err = gwm_attr_string(im, "mode", mode, sizeof(mode));

    r->cubic_a = -0.75f;
    strcpy(r->coordinates, im->opset < 11 ? "asymmetric" : "half_pixel");
    strcpy(r->rounding, im->opset < 11 ? "floor" : "round_prefer_floor");
    if (err < 0 ||
        (err = gwm_attr_string(im, "coordinate_transformation_mode", r->coordinates,
                               sizeof(r->coordinates))) < 0 ||
        (err = gwm_attr_string(im, "nearest_mode", r->rounding, sizeof(r->rounding))) < 0 ||
        (err = gwm_attr_float(im, "cubic_coeff_a", &r->cubic_a)) < 0 ||
        (err = gwm_attr_int(im, "exclude_outside", &exclude)) < 0 ||
        (err = gwm_attr_int(im, "antialias", &antialias)) < 0)
        return err;
    r->exclude_outside = exclude != 0;
    if (antialias) return gwm_op_fail(im, -ENOTSUP, "antialiasing");
    if (!strcmp(r->coordinates, "tf_crop_and_resize")) return gwm_op_fail(im, -ENOTSUP, "tf_crop_and_resize");
    r->method = mode[0] == 'n' ? NEAREST : mode[0] == 'l' ? LINEAR : CUBIC;
    return 0;
}

/* The scales of `n` axes: a list of floats, an input or an attribute. */
static int read_scales(struct gwm_import *im, uint32_t input, int n, float *out)
{
    const float *p = gwm_in_floats(im, input, n);
    const Onnx__AttributeProto *a = gwm_attr(im, "scales");

    if (!p && a && a->n_floats == (size_t)n) p = a->floats;
    if (!p) return gwm_op_fail(im, -ENOTSUP, "its scales must be %d constant numbers", n);
    for (int i = 0; i < n; i++) {
        out[i] = p[i];
        if (!(p[i] > 0 && p[i] <= (float)GWM_MAX_SIDE))
            return gwm_op_fail(im, -EBADMSG, "a scale of %g", (double)out[i]);
    }
    return 0;
}

/* Sides and scales of the axes that are resized, which `axes` names; the others keep theirs. */
static int ops_resize_sides(struct gwm_import *im, struct resize *r, const struct gwm_shape *x)
{
    int64_t axes[GW_MODEL_MAX_RANK], sizes[GW_MODEL_MAX_RANK];
    uint32_t last = im->opset < 11 ? 1 : 2;
    float scales[GW_MODEL_MAX_RANK];
    int n = gwm_attr_ints(im, "axes", axes, GW_MODEL_MAX_RANK);

    if (n < 0 && n != -ENOENT) return n;
    if (n < 0)
        for (n = 0; n < (int)x->rank; n++) axes[n] = n;
    bool by_size = gwm_in(im, 3) && gwm_in(im, 3)->count;
    int err = by_size ? gwm_in_ints(im, 3, sizes, GW_MODEL_MAX_RANK) : read_scales(im, last, n, scales);
    if (err < 0) return err;
    if (by_size && err != n) return gwm_op_fail(im, -EBADMSG, "%d sizes for %d axes", err, n);
    for (int i = 0; i < n; i++) {
        int a = gwm_axis(im, axes[i], x->rank);
        if (a < 0) return a;
        double side = by_size ? (double)sizes[i] : floor((double)((float)x->d[a] * scales[i]));
        if (!(side >= 1 && side <= GWM_MAX_COUNT)) return gwm_op_fail(im, -ENOTSUP, "a side of %g", side);
        r->side[a] = (int64_t)side;
        r->scale[a] = by_size ? (float)side / (float)x->d[a] : scales[i];
    }
    return 0;
}

static int ops_resize(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape;
    struct resize r = {0};
    char policy[16] = "stretch";
    int err = read_method(im, &r), v = im->in[0];

    if (err < 0 || (err = gwm_attr_string(im, "keep_aspect_ratio_policy", policy, sizeof(policy))) < 0)
        return err;
    if (strcmp(policy, "stretch")) return gwm_op_fail(im, -ENOTSUP, "policy '%s'", policy);
    if (!gwm_count(&x)) return gwm_op_fail(im, -ENOTSUP, "its input has no elements");
    for (uint32_t i = 0; i < x.rank; i++) {
        r.side[i] = x.d[i];
        r.scale[i] = 1;
    }
    if ((err = ops_resize_sides(im, &r, &x)) < 0) return err;
    for (int a = 0; a < (int)x.rank && v >= 0; a++)
        if (r.side[a] != x.d[a] || r.scale[a] != 1) v = ops_resize_axis(im, &r, v, a);
    struct gwm_act none = {.kind = GWM_ACT_NONE};
    return gwm_result(im, v < 0 ? v : gwm_emit_unary(im, none, v, im->node->output[0]));
}

const struct gwm_operator gwm_ops_resize[] = {
    {"Resize", 1, 4, false,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode scales ",
     ops_resize},
    {"Upsample", 1, 2, false, "mode scales ", ops_resize},
    {0},
};
