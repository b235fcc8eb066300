/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that slide a window over height and width: convolution and pooling. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "src/model/import/ops.h"

/* The attributes along up to two axes; a 1-D window is one of height 1. */
struct sides {
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    char auto_pad[16];
    int64_t ceil;
    uint32_t axes;
};

/* Reads a list with one number per axis into the last `axes` of two. */
static int read_side(struct gwm_import *im, const char *name, uint32_t axes, int64_t low, int64_t out[2])
{
    int64_t v[2];
    int n = gwm_attr_ints(im, name, v, 2);

    if (n == -ENOENT) return 0;
    if (n < 0) return n;
    if ((uint32_t)n != axes)
        return gwm_op_fail(im, -EBADMSG, "'%s' has %d numbers, expected %u", name, n, axes);
    for (uint32_t i = 0; i < axes; i++) {
        if (v[i] < low || v[i] > GWM_MAX_SIDE)
            return gwm_op_fail(im, -ENOTSUP, "'%s' of %" PRId64, name, v[i]);
        out[2 - axes + i] = v[i];
    }
    return 1;
}

static int ops_window_pads(struct gwm_import *im, struct sides *s)
{
    int64_t v[4];
    int n = gwm_attr_ints(im, "pads", v, 4);

    if (n == -ENOENT) return 0;
    if (n < 0) return n;
    if ((uint32_t)n != 2 * s->axes)
        return gwm_op_fail(im, -EBADMSG, "'pads' has %d numbers, expected %u", n, 2 * s->axes);
    for (int i = 0; i < n; i++)
        if (v[i] < 0 || v[i] > GWM_MAX_SIDE) return gwm_op_fail(im, -ENOTSUP, "'pads' of %" PRId64, v[i]);
    for (uint32_t i = 0; i < s->axes; i++) {
        s->begin[2 - s->axes + i] = v[i];
        s->end[2 - s->axes + i] = v[s->axes + i];
    }
    return 0;
}

static int ops_window_sides(struct gwm_import *im, struct sides *s, bool need_kernel)
{
    const struct gwm_value *x = gwm_in(im, 0);
    int err;

    *s = (struct sides){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .auto_pad = "NOTSET"};
    if (x->shape.rank != 3 && x->shape.rank != 4)
        return gwm_op_fail(im, -ENOTSUP, "input of %u dimensions; only 1-D and 2-D windows are supported",
                           x->shape.rank);
    s->axes = x->shape.rank - 2;
    err = read_side(im, "kernel_shape", s->axes, 1, s->kernel);
    if (err == 0 && need_kernel) return gwm_op_fail(im, -EBADMSG, "it has no 'kernel_shape'");
    if (err >= 0) err = read_side(im, "strides", s->axes, 1, s->stride);
    if (err >= 0) err = read_side(im, "dilations", s->axes, 1, s->dilation);
    if (err >= 0) err = gwm_attr_string(im, "auto_pad", s->auto_pad, sizeof(s->auto_pad));
    if (err >= 0) err = gwm_attr_int(im, "ceil_mode", &s->ceil);
    return err < 0 ? err : ops_window_pads(im, s);
}

/* Padding and size of the result along one axis; the size, or an error. */
static int64_t out_side(struct gwm_import *im, struct sides *s, int axis, int64_t in)
{
    int64_t span = (s->kernel[axis] - 1) * s->dilation[axis] + 1, stride = s->stride[axis];

    if (!strcmp(s->auto_pad, "VALID")) {
        s->begin[axis] = s->end[axis] = 0;
    } else if (!strncmp(s->auto_pad, "SAME_", 5)) {
        int64_t out = (in + stride - 1) / stride, pad = (out - 1) * stride + span - in;
        if (pad < 0) pad = 0;
        if (pad > GWM_MAX_SIDE) return gwm_op_fail(im, -ENOTSUP, "padding of %" PRId64, pad);
        s->begin[axis] = !strcmp(s->auto_pad, "SAME_LOWER") ? pad - pad / 2 : pad / 2;
        s->end[axis] = pad - s->begin[axis];
    } else if (strcmp(s->auto_pad, "NOTSET")) {
        return gwm_op_fail(im, -ENOTSUP, "auto_pad '%s'", s->auto_pad);
    }
    int64_t room = in + s->begin[axis] + s->end[axis] - span;
    if (room < 0)
        return gwm_op_fail(im, -EBADMSG, "a window of %" PRId64 " on an input of %" PRId64 " with padding",
                           span, in + s->begin[axis] + s->end[axis]);
    int64_t out = (s->ceil ? room + stride - 1 : room) / stride + 1;
    if (s->ceil && (out - 1) * stride >= in + s->begin[axis])
        out--; /* a window must start in the input or in the padding before it */
    return out;
}

/* The window that slides over the input `in` and gives oh x ow, and the shape of the result. */
static void ops_window_set(const struct sides *s, const struct gwm_shape *in, int64_t oh, int64_t ow,
                           struct gwm_window *w, struct gwm_shape *out)
{
    int64_t h = in->rank == 4 ? in->d[2] : 1, wd = in->d[in->rank - 1];

    *w = (struct gwm_window){.n = in->d[0],
                             .c = in->d[1],
                             .h = (int32_t)h,
                             .w = (int32_t)wd,
                             .oh = (int32_t)oh,
                             .ow = (int32_t)ow,
                             .kh = (int32_t)s->kernel[0],
                             .kw = (int32_t)s->kernel[1],
                             .sh = (int32_t)s->stride[0],
                             .sw = (int32_t)s->stride[1],
                             .dh = (int32_t)s->dilation[0],
                             .dw = (int32_t)s->dilation[1],
                             .top = (int32_t)s->begin[0],
                             .left = (int32_t)s->begin[1],
                             .bottom = (int32_t)s->end[0],
                             .right = (int32_t)s->end[1]};
    *out = *in;
    if (in->rank == 4) out->d[2] = w->oh;
    out->d[in->rank - 1] = w->ow;
}

static int make_window(struct gwm_import *im, struct sides *s, struct gwm_window *w, struct gwm_shape *out,
                       int32_t oc)
{
    const struct gwm_shape *in = &gwm_in(im, 0)->shape;
    int64_t h = in->rank == 4 ? in->d[2] : 1, wd = in->d[in->rank - 1];
    int64_t oh = out_side(im, s, 0, h), ow = oh < 0 ? oh : out_side(im, s, 1, wd);

    if (ow < 0) return (int)ow;
    ops_window_set(s, in, oh, ow, w, out);
    out->d[1] = oc;
    return 0;
}

/* Reads the parts of a convolution, plain or transposed: constant weights and bias, groups, the kernel's
 * sides. */
static int read_conv(struct gwm_import *im, struct sides *s, struct gwm_conv *c)
{
    const struct gwm_value *wt = gwm_in(im, 1), *b = gwm_in(im, 2);
    int64_t group = 1;
    int err = ops_window_sides(im, s, false);

    if (err < 0 || (err = gwm_attr_int(im, "group", &group)) < 0) return err;
    if (!wt->data || wt->dtype != GWM_F32 || (b && (!b->data || b->dtype != GWM_F32)))
        return gwm_op_fail(im, -ENOTSUP, "weights and bias must be constants");
    if (wt->shape.rank != gwm_in(im, 0)->shape.rank)
        return gwm_op_fail(im, -EBADMSG, "weights of %u dimensions for an input of %u", wt->shape.rank,
                           gwm_in(im, 0)->shape.rank);
    if (group < 1 || group > gwm_in(im, 0)->shape.d[1])
        return gwm_op_fail(im, -EBADMSG, "%" PRId64 " groups of %d input channels", group,
                           gwm_in(im, 0)->shape.d[1]);
    for (uint32_t i = 0; i < s->axes; i++) {
        int64_t *k = &s->kernel[2 - s->axes + i], side = wt->shape.d[2 + i];
        if ((gwm_attr(im, "kernel_shape") && *k != side) || side > GWM_MAX_SIDE)
            return gwm_op_fail(im, -EBADMSG, "kernel_shape does not agree with the weights");
        *k = side;
    }
    *c = (struct gwm_conv){.group = (int32_t)group,
                           .weight = (const float *)wt->data,
                           .bias = b ? (const float *)b->data : NULL};
    return 0;
}

static int check_bias(struct gwm_import *im, const struct gwm_conv *c)
{
    const struct gwm_value *b = gwm_in(im, 2);

    return b && b->count != c->oc ? gwm_op_fail(im, -EBADMSG, "a bias of %d for %d channels", b->count, c->oc)
                                  : 0;
}

static int emit_conv(struct gwm_import *im, enum gwm_op op, const struct gwm_conv *c,
                     const struct gwm_shape *out)
{
    int n = gwm_emit(im, op, im->in, 1, out, im->node->output[0]);

    if (n < 0) return n;
    im->g->node[n].conv = *c;
    return gwm_result(im, gwm_settle(im, n));
}

static int ops_conv(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0), *wt = gwm_in(im, 1);
    struct gwm_conv c;
    struct gwm_shape out;
    struct sides s;
    int err = read_conv(im, &s, &c);

    if (err < 0) return err;
    c.oc = wt->shape.d[0];
    if (!wt->count || c.oc % c.group || x->shape.d[1] % c.group || wt->shape.d[1] != x->shape.d[1] / c.group)
        return gwm_op_fail(im, -EBADMSG, "weights %d x %d do not fit %d input channels in %d groups", c.oc,
                           wt->shape.d[1], x->shape.d[1], c.group);
    if ((err = check_bias(im, &c)) < 0 || (err = make_window(im, &s, &c.win, &out, c.oc)) < 0) return err;
    return emit_conv(im, GWM_CONV, &c, &out);
}

/* One axis of the result of a transposed convolution, and its padding there; or an error. */
static int64_t wide_side(struct gwm_import *im, struct sides *s, int axis, int64_t in, int64_t extra,
                         int64_t asked)
{
    int64_t span = (s->kernel[axis] - 1) * s->dilation[axis] + 1,
            full = s->stride[axis] * (in - 1) + extra + span;

    bool said = asked;

    if (!strncmp(s->auto_pad, "SAME_", 5) && !asked) asked = in * s->stride[axis];
    if (asked) { /* the padding follows from the size */
        /* The part that the input does not reach lies after the rest, and has the bias alone. */
        int64_t total = full > asked ? full - asked : 0, half = total / 2;
        bool upper = !strcmp(s->auto_pad, "SAME_UPPER");
        if (said && asked - full >= s->stride[axis])
            return gwm_op_fail(im, -EBADMSG,
                               "an output_shape of %" PRId64 ", where %" PRId64
                               " is all that the input reaches",
                               asked, full);
        if (said && full < asked) full = asked;
        s->begin[axis] = upper ? half : total - half;
        s->end[axis] = total - s->begin[axis];
    }
    int64_t out = full - s->begin[axis] - s->end[axis];
    if (out <= 0 || out > GWM_MAX_COUNT || span > GWM_MAX_SIDE)
        return gwm_op_fail(im, -ENOTSUP, "a side of %" PRId64, out);
    return out;
}

static int wide_window(struct gwm_import *im, struct sides *s, struct gwm_window *w, struct gwm_shape *out,
                       int32_t oc)
{
    const struct gwm_shape *in = &gwm_in(im, 0)->shape;
    int64_t extra[2] = {0, 0}, asked[2] = {0, 0}, h = in->rank == 4 ? in->d[2] : 1, wd = in->d[in->rank - 1];
    int err = read_side(im, "output_padding", s->axes, 0, extra);

    if (err >= 0) err = read_side(im, "output_shape", s->axes, 1, asked);
    if (err < 0) return err;
    int64_t oh = wide_side(im, s, 0, h, extra[0], asked[0]);
    int64_t ow = oh < 0 ? oh : wide_side(im, s, 1, wd, extra[1], asked[1]);
    if (ow < 0) return (int)ow;
    ops_window_set(s, in, oh, ow, w, out);
    out->d[1] = oc;
    return gwm_count(out) < 0 ? gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements") : 0;
}

static int conv_transpose(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0), *wt = gwm_in(im, 1);
    struct gwm_conv c;
    struct gwm_shape out;
    struct sides s;
    int err = read_conv(im, &s, &c);

    if (err < 0) return err;
    if (x->shape.d[1] % c.group || wt->shape.d[0] != x->shape.d[1] || !wt->count ||
        wt->shape.d[1] > GWM_MAX_COUNT / c.group)
        return gwm_op_fail(im, -EBADMSG, "its weights do not fit %d input channels in %d groups",
                           x->shape.d[1], c.group);
    c.oc = wt->shape.d[1] * c.group;
    if ((err = check_bias(im, &c)) < 0 || (err = wide_window(im, &s, &c.win, &out, c.oc)) < 0) return err;
    return emit_conv(im, GWM_DECONV, &c, &out);
}

static int emit_pool(struct gwm_import *im, struct sides *s, struct gwm_pool p)
{
    struct gwm_shape out;
    int err = make_window(im, s, &p.win, &out, gwm_in(im, 0)->shape.d[1]);

    if (err < 0) return err;
    int n = gwm_emit(im, GWM_POOL, im->in, 1, &out, im->node->output[0]);
    if (n < 0) return n;
    im->g->node[n].pool = p;
    return gwm_result(im, gwm_settle(im, n));
}

static int pool(struct gwm_import *im)
{
    struct gwm_pool p = {.average = im->node->op_type[0] == 'A'};
    int64_t count_pads = 0, order = 0;
    struct sides s;
    int err = ops_window_sides(im, &s, true);

    if (err >= 0) err = gwm_attr_int(im, "count_include_pad", &count_pads);
    if (err >= 0) err = gwm_attr_int(im, "storage_order", &order);
    if (err < 0) return err;
    if (order) return gwm_op_fail(im, -ENOTSUP, "storage_order 1 (column-major)");
    p.count_pads = count_pads != 0;
    return emit_pool(im, &s, p);
}

static int global_pool(struct gwm_import *im)
{
    struct gwm_pool p = {.average = im->node->op_type[6] == 'A'};
    struct sides s;
    int err = ops_window_sides(im, &s, false);

    if (err < 0) return err;
    const struct gwm_shape *x = &gwm_in(im, 0)->shape;
    s.kernel[0] = x->rank == 4 ? x->d[2] : 1;
    s.kernel[1] = x->d[x->rank - 1];
    return emit_pool(im, &s, p);
}

const struct gwm_operator gwm_ops_window[] = {
    {"Conv", 2, 3, false, "auto_pad dilations group kernel_shape pads strides ", ops_conv},
    {"ConvTranspose", 2, 3, false,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides ", conv_transpose},
    {"MaxPool", 1, 1, false, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides ", pool},
    {"AveragePool", 1, 1, false, "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides ",
     pool},
    {"GlobalAveragePool", 1, 1, false, "", global_pool},
    {"GlobalMaxPool", 1, 1, false, "", global_pool},
    {0},
};
