/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that address single elements: each becomes picking from a flat list. What is written into a
 * tensor at known places is picked from the tensor and what is written, one after the other.
 */
#include <errno.h>
#include <string.h>

#include "src/model/graph/move.h"
#include "src/model/import/ops.h"

/* A value seen as one list. */
static int flat(struct gwm_import *im, int x)
{
    struct gwm_shape s = {.rank = 1, .d = {im->g->value[x].count}};

    return gwm_reshape(im, x, &s);
}

/* Elements of the list x at the positions that value `index` holds, in that shape. */
static int ops_scatter_pick(struct gwm_import *im, int x, int index, const struct gwm_shape *out)
{
    int list = flat(im, x), in[2] = {list, index};
    struct gwm_gather q = {1, im->g->value[x].count, 1, im->g->value[index].count};

    if (list < 0) return list;
    if (!q.n) return gwm_op_fail(im, -ENOTSUP, "its input has no elements");
    int n = gwm_emit(im, GWM_GATHER, in, 2, out, im->node->output[0]);
    if (n < 0) return n;
    im->g->node[n].gather = q;
    return gwm_result(im, gwm_settle(im, n));
}

static int32_t stride_of(const struct gwm_shape *s, int axis)
{
    int32_t n = 1;

    for (uint32_t i = (uint32_t)axis + 1; i < s->rank; i++) n *= s->d[i];
    return n;
}

/* Where element i of a tensor of shape `of` lies in one of shape `in`, but for its position along `axis`. */
static int64_t place_without(const struct gwm_shape *of, const struct gwm_shape *in, int axis, int32_t i)
{
    int64_t at = 0;

    for (int k = (int)of->rank - 1; k >= 0; k--) {
        int32_t side = of->d[k] ? of->d[k] : 1;
        if (k != axis) at += (int64_t)(i % side) * stride_of(in, k);
        i /= side;
    }
    return at;
}

/* A constant list of integers; *room is where to write them. */
static int list_of(struct gwm_import *im, int32_t count, int64_t **room)
{
    struct gwm_shape s = {.rank = 1, .d = {count}};
    void *p;
    int v = gwm_const(im, GWM_I64, &s, NULL, &p);

    if (v < 0) return gwm_op_fail(im, v, "out of memory");
    *room = (int64_t *)p;
    return v;
}

static int ops_scatter_number(struct gwm_import *im, int64_t n)
{
    struct gwm_shape s = {0};
    int v = gwm_const(im, GWM_I64, &s, &n, NULL);

    return v < 0 ? gwm_op_fail(im, v, "out of memory") : v;
}

/* (index + n, where it is negative) times the axis' stride, plus where the other axes are. */
static int gather_elements(struct gwm_import *im)
{
    const struct gwm_shape x = gwm_in(im, 0)->shape, s = gwm_in(im, 1)->shape;
    int64_t axis = 0, *base;
    int err = gwm_attr_int(im, "axis", &axis), at = im->in[1];

    if (err < 0 || (err = gwm_axis(im, axis, x.rank)) < 0) return err;
    bool fits = s.rank == x.rank && gwm_in(im, 1)->dtype == GWM_I64;
    for (int i = 0; i < (int)x.rank && fits; i++) fits = i == err || s.d[i] <= x.d[i];
    if (!fits) return gwm_op_fail(im, -EBADMSG, "its indices do not fit the input");
    int places = list_of(im, gwm_count(&s), &base), zero = ops_scatter_number(im, 0),
        side = ops_scatter_number(im, x.d[err]), step = ops_scatter_number(im, stride_of(&x, err)),
        least = ops_scatter_number(im, -(int64_t)x.d[err]),
        most = ops_scatter_number(im, (int64_t)x.d[err] - 1);
    if (places < 0 || zero < 0 || side < 0 || step < 0 || least < 0 || most < 0) return -ENOMEM;
    for (int32_t i = 0; i < gwm_count(&s); i++) base[i] = place_without(&s, &x, err, i);
    /* Nothing outside the axis, whatever a client sends. */
    at = flat(im, at);
    if (at >= 0) at = gwm_emit_binary(im, GWM_MAX, at, least, "");
    if (at >= 0) at = gwm_emit_binary(im, GWM_MIN, at, most, "");
    int below = at < 0 ? at : gwm_emit_binary(im, GWM_LESS, at, zero, "");
    int more = below < 0 ? below : gwm_emit_binary(im, GWM_MUL, below, side, "");
    if (more >= 0) at = gwm_emit_binary(im, GWM_ADD, at, more, "");
    if (more < 0) at = more;
    if (at >= 0) at = gwm_emit_binary(im, GWM_MUL, at, step, "");
    if (at >= 0) at = gwm_emit_binary(im, GWM_ADD, at, places, "");
    return at < 0 ? at : ops_scatter_pick(im, im->in[0], at, &s);
}

/* Reads the constant tuples of GatherND and ScatterND: where each one's part of x begins. The parts have *run
 * elements. */
static int tuples(struct gwm_import *im, const struct gwm_shape *x, int64_t *out, int32_t count,
                  int32_t depth)
{
    const int64_t *index = (const int64_t *)gwm_in(im, 1)->data;

    for (int32_t i = 0; i < count; i++) {
        out[i] = 0;
        for (int32_t k = 0; k < depth; k++) {
            int64_t at = index[(size_t)i * (size_t)depth + (size_t)k];
            if (at < -(int64_t)x->d[k] || at >= x->d[k])
                return gwm_op_fail(im, -EBADMSG, "an index is outside the input");
            out[i] += (at < 0 ? at + x->d[k] : at) * stride_of(x, k);
        }
    }
    return 0;
}

/* The indices of GatherND and ScatterND: how long a tuple is, how many there are, how long the parts are that
 * they name. */
static int read_tuples(struct gwm_import *im, int32_t *depth, int32_t *count, int32_t *run)
{
    const struct gwm_value *x = gwm_in(im, 0), *index = gwm_in(im, 1);
    const struct gwm_shape *s = &index->shape;

    if (index->dtype != GWM_I64 || !s->rank || s->d[s->rank - 1] > (int32_t)x->shape.rank ||
        !s->d[s->rank - 1])
        return gwm_op_fail(im, -EBADMSG, "its indices do not fit the input");
    if (!index->data) return gwm_op_fail(im, -ENOTSUP, "its indices must be constants");
    *depth = s->d[s->rank - 1];
    *count = index->count / *depth;
    *run = stride_of(&x->shape, *depth - 1);
    if ((int64_t)*count * *run > GWM_MAX_COUNT)
        return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    return 0;
}

static int gather_nd(struct gwm_import *im)
{
    const struct gwm_shape x = gwm_in(im, 0)->shape, s = gwm_in(im, 1)->shape;
    int64_t batch = 0, *first, *at;
    int32_t depth, count, run;
    struct gwm_shape out = s;
    int err = gwm_attr_int(im, "batch_dims", &batch);

    if (err < 0 || (err = read_tuples(im, &depth, &count, &run)) < 0) return err;
    if (batch) return gwm_op_fail(im, -ENOTSUP, "batch_dims other than 0");
    if (s.rank - 1 + x.rank - (uint32_t)depth > GW_MODEL_MAX_RANK)
        return gwm_op_fail(im, -ENOTSUP, "more than 8 dimensions");
    for (out.rank = s.rank - 1; depth + (int32_t)(out.rank - (s.rank - 1)) < (int32_t)x.rank; out.rank++)
        out.d[out.rank] = x.d[depth + (int32_t)(out.rank - (s.rank - 1))];
    int begins = list_of(im, count, &first), places = begins < 0 ? begins : list_of(im, count * run, &at);
    if (places < 0 || (err = tuples(im, &x, first, count, depth)) < 0) return places < 0 ? places : err;
    for (int32_t i = 0; i < count * run; i++) at[i] = first[i / run] + i % run;
    return ops_scatter_pick(im, im->in[0], places, &out);
}

/* Writes `count` elements of the third input at positions `at` of the tensor. */
static int write_at(struct gwm_import *im, const int64_t *at, int32_t count)
{
    const struct gwm_value *x = gwm_in(im, 0), *y = gwm_in(im, 2);
    struct gwm_shape shape = x->shape, both = {.rank = 1, .d = {x->count + y->count}};
    int32_t n = x->count;
    int64_t *from;

    if (x->dtype != y->dtype || y->count != count)
        return gwm_op_fail(im, -EBADMSG, "what it writes does not fit its indices");
    if (gwm_count(&both) < 0) return gwm_op_fail(im, -ENOTSUP, "more than 2^28 elements");
    int places = list_of(im, n, &from), in[2] = {flat(im, im->in[0]), flat(im, im->in[2])};
    struct gwm_move *m = gwm_alloc(im->g, 2 * sizeof(*m));
    if (places < 0 || in[0] < 0 || in[1] < 0 || !m) return gwm_op_fail(im, -ENOMEM, "out of memory");
    for (int32_t i = 0; i < n; i++) from[i] = i;
    for (int32_t i = 0; i < count; i++) from[at[i]] = n + i; /* of several that meet the last one stays */
    int node = gwm_emit(im, GWM_CONCAT, in, 2, &both, "");
    if (node < 0) return node;
    for (int k = 0; k < 2; k++)
        gwm_move_place(&m[k], &im->g->value[in[k]].shape, &both, (int32_t[]){k ? n : 0});
    im->g->node[node].mv.move = m;
    int list = gwm_settle(im, node);
    return list < 0 ? list : ops_scatter_pick(im, list, places, &shape);
}

static int no_reduction(struct gwm_import *im)
{
    char reduction[8] = "none";
    int err = gwm_attr_string(im, "reduction", reduction, sizeof(reduction));

    return err < 0 || !strcmp(reduction, "none") ? err
                                                 : gwm_op_fail(im, -ENOTSUP, "reduction '%s'", reduction);
}

static int scatter_nd(struct gwm_import *im)
{
    const struct gwm_shape x = gwm_in(im, 0)->shape;
    int64_t *first, *at;
    int32_t depth, count, run;
    int err = no_reduction(im);

    if (err < 0 || (err = read_tuples(im, &depth, &count, &run)) < 0) return err;
    int begins = list_of(im, count, &first), places = begins < 0 ? begins : list_of(im, count * run, &at);
    if (places < 0 || (err = tuples(im, &x, first, count, depth)) < 0) return places < 0 ? places : err;
    for (int32_t i = 0; i < count * run; i++) at[i] = first[i / run] + i % run;
    return write_at(im, at, count * run);
}

static int scatter_elements(struct gwm_import *im)
{
    const struct gwm_value *index = gwm_in(im, 1);
    const struct gwm_shape x = gwm_in(im, 0)->shape, s = index->shape;
    int64_t axis = 0, *at;
    int err = no_reduction(im);

    if (err < 0 || (err = gwm_attr_int(im, "axis", &axis)) < 0 || (err = gwm_axis(im, axis, x.rank)) < 0)
        return err;
    if (index->dtype != GWM_I64 || !index->data)
        return gwm_op_fail(im, -ENOTSUP, "its indices must be constants");
    bool fits = s.rank == x.rank;
    for (int i = 0; i < (int)x.rank && fits; i++) fits = s.d[i] <= x.d[i] || i == err;
    for (int32_t i = 0; i < index->count && fits; i++) {
        int64_t k = ((const int64_t *)index->data)[i];
        fits = k >= -(int64_t)x.d[err] && k < x.d[err];
    }
    if (!fits) return gwm_op_fail(im, -EBADMSG, "its indices do not fit the input");
    const int64_t *list = (const int64_t *)index->data; /* the value may move, its data does not */
    int32_t count = index->count;
    int places = list_of(im, count, &at);
    if (places < 0) return places;
    for (int32_t i = 0; i < count; i++)
        at[i] =
            place_without(&s, &x, err, i) + (list[i] < 0 ? list[i] + x.d[err] : list[i]) * stride_of(&x, err);
    return write_at(im, at, count);
}

const struct gwm_operator gwm_ops_scatter[] = {
    {"GatherElements", 2, 2, true, "axis ", gather_elements},
    {"GatherND", 2, 2, true, "batch_dims ", gather_nd},
    {"ScatterND", 3, 3, true, "reduction ", scatter_nd},
    {"ScatterElements", 3, 3, true, "axis reduction ", scatter_elements},
    {0},
};
