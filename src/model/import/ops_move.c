/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements: each element of the result is one of the input's. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "src/model/graph/move.h"
#include "src/model/import/ops.h"

/* A node that moves elements of x; its value. */
static int emit_move(struct gwm_import *im, int x, const struct gwm_move *move, const struct gwm_shape *out,
                     const char *name)
{
    struct gwm_move *m = gwm_alloc(im->g, sizeof(*m));
    int n = m ? gwm_emit(im, GWM_MOVE, &x, 1, out, name) : gwm_op_fail(im, -ENOMEM, "out of memory");

    if (n < 0) return n;
    *m = *move;
    im->g->node[n].mv.move = m;
    return gwm_settle(im, n);
}

/* The input seen as `dims` with its axes permuted. */
static int emit_permute(struct gwm_import *im, const int32_t *dims, uint32_t rank, const int32_t *perm,
                        const struct gwm_shape *out)
{
    struct gwm_move m;

    gwm_move_permute(&m, dims, rank, perm);
    return gwm_result(im, emit_move(im, im->in[0], &m, out, im->node->output[0]));
}

int gwm_emit_transpose(struct gwm_import *im, int x, const int32_t *perm, const char *name)
{
    const struct gwm_shape from = im->g->value[x].shape;
    struct gwm_shape to = {.rank = from.rank};
    struct gwm_move m;
    int32_t last = -1;
    bool moves = false;

    for (uint32_t i = 0; i < from.rank; i++) {
        to.d[i] = from.d[perm[i]];
        if (to.d[i] == 1) continue;
        moves = moves || perm[i] < last;
        last = perm[i];
    }
    if (!moves) { /* only sides of 1 change places */
        int v = gwm_view_new(im->g, name, x, &to);
        if (v >= 0) im->g->value[v].data = im->g->value[x].data;
        return v < 0 ? gwm_op_fail(im, v, "out of memory") : v;
    }
    gwm_move_permute(&m, from.d, from.rank, perm);
    return emit_move(im, x, &m, &to, name);
}

static int transpose(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape;
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
    }
    return gwm_result(im, gwm_emit_transpose(im, im->in[0], perm, im->node->output[0]));
}

static int depth_to_space(struct gwm_import *im)
{
    static const int32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    struct gwm_shape x = gwm_in(im, 0)->shape;
    char mode[8] = "DCR";
    int64_t r = 0;
    int err = gwm_attr_int(im, "blocksize", &r);

    if (err < 0 || (err = gwm_attr_string(im, "mode", mode, sizeof(mode))) < 0) return err;
    if (x.rank != 4 || r < 1 || r > 1024 || x.d[1] % (r * r))
        return gwm_op_fail(im, -EBADMSG, "its input does not divide into blocks of %" PRId64, r);
    int32_t b = (int32_t)r, c = x.d[1] / (b * b), h = x.d[2], w = x.d[3];
    struct gwm_shape s = {.rank = 4, .d = {x.d[0], c, h * b, w * b}};
    if (!strcmp(mode, "DCR")) return emit_permute(im, (int32_t[]){x.d[0], b, b, c, h, w}, 6, dcr, &s);
    if (!strcmp(mode, "CRD")) return emit_permute(im, (int32_t[]){x.d[0], c, b, b, h, w}, 6, crd, &s);
    return gwm_op_fail(im, -ENOTSUP, "mode '%s'", mode);
}

static int space_to_depth(struct gwm_import *im)
{
    static const int32_t perm[] = {0, 3, 5, 1, 2, 4};
    struct gwm_shape x = gwm_in(im, 0)->shape;
    int64_t r = 0;
    int err = gwm_attr_int(im, "blocksize", &r);

    if (err < 0) return err;
    if (x.rank != 4 || r < 1 || r > 1024 || x.d[2] % r || x.d[3] % r || x.d[1] > GWM_MAX_COUNT / (r * r))
        return gwm_op_fail(im, -EBADMSG, "its input does not divide into blocks of %" PRId64, r);
    int32_t b = (int32_t)r, h = x.d[2] / b, w = x.d[3] / b;
    struct gwm_shape s = {.rank = 4, .d = {x.d[0], x.d[1] * b * b, h, w}};
    return emit_permute(im, (int32_t[]){x.d[0], x.d[1], h, b, w, b}, 6, perm, &s);
}

/* The shape of the whole: equal sides but for the axis, along which they add up. */
static int concat_shape(struct gwm_import *im, int axis, struct gwm_shape *s)
{
    for (uint32_t i = 0; i < im->nin; i++) {
        const struct gwm_value *v = gwm_in(im, i);
        if (!v || v->dtype != gwm_in(im, 0)->dtype || v->shape.rank != s->rank)
            return gwm_op_fail(im, -EBADMSG, "its inputs do not fit");
        for (int k = 0; k < (int)s->rank; k++)
            if (k != axis && v->shape.d[k] != s->d[k])
                return gwm_op_fail(im, -EBADMSG, "its inputs do not fit");
        if (i) s->d[axis] += v->shape.d[axis];
        if (gwm_count(s) < 0) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    }
    return 0;
}

static int ops_concat(struct gwm_import *im)
{
    struct gwm_shape s = gwm_in(im, 0)->shape;
    int32_t at[GW_MODEL_MAX_RANK] = {0};
    int64_t axis = 0;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0) return err;
    err = gwm_axis(im, axis, s.rank);
    if (err < 0 || (axis = err, err = concat_shape(im, (int)axis, &s)) < 0) return err;
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

/* ---- parts ---- */

/* Where a slice begins, how far it goes and in which steps, along each axis. */
struct slice {
    int64_t start[GW_MODEL_MAX_RANK], end[GW_MODEL_MAX_RANK], axis[GW_MODEL_MAX_RANK],
        step[GW_MODEL_MAX_RANK];
};

/* Lists are attributes in old files, inputs in new ones; the count, or an error. */
static int slice_list(struct gwm_import *im, uint32_t input, const char *attr, int64_t *out)
{
    return im->opset < 10 ? gwm_attr_ints(im, attr, out, GW_MODEL_MAX_RANK)
                          : gwm_in_ints(im, input, out, GW_MODEL_MAX_RANK);
}

static int read_slice(struct gwm_import *im, struct slice *s)
{
    int n = slice_list(im, 1, "starts", s->start), e = n < 0 ? n : slice_list(im, 2, "ends", s->end);
    int a = e < 0 ? e : slice_list(im, 3, "axes", s->axis), t = -ENOENT;

    if (n < 0 || e < 0)
        return n == -ENOENT || e == -ENOENT ? gwm_op_fail(im, -EBADMSG, "it has no bounds") : e;
    if (im->opset >= 10) t = gwm_in_ints(im, 4, s->step, GW_MODEL_MAX_RANK);
    if ((a < 0 && a != -ENOENT) || (t < 0 && t != -ENOENT)) return a < 0 && a != -ENOENT ? a : t;
    for (int i = 0; i < n; i++) {
        if (a == -ENOENT) s->axis[i] = i;
        if (t == -ENOENT) s->step[i] = 1;
    }
    if (e != n || (a >= 0 && a != n) || (t >= 0 && t != n))
        return gwm_op_fail(im, -EBADMSG, "its lists are not of the same length");
    return n;
}

static int64_t clamped(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static int ops_slice(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, out = x;
    int32_t at[GW_MODEL_MAX_RANK] = {0}, step[GW_MODEL_MAX_RANK];
    struct gwm_move m;
    struct slice s;
    int n = read_slice(im, &s);

    for (uint32_t i = 0; i < x.rank; i++) step[i] = 1;
    for (int i = 0; i < n; i++) {
        int a = gwm_axis(im, s.axis[i], x.rank);
        if (a < 0) return a;
        int64_t d = x.d[a], st = clamped(s.step[i], -GWM_MAX_COUNT, GWM_MAX_COUNT), b = s.start[i],
                e = s.end[i];
        if (!st) return gwm_op_fail(im, -EBADMSG, "a step of 0");
        b = clamped(b < 0 ? b + d : b, st > 0 ? 0 : -1, st > 0 ? d : d - 1);
        e = clamped(e < 0 ? e + d : e, st > 0 ? 0 : -1, st > 0 ? d : d - 1);
        int64_t count = st > 0 ? (e - b + st - 1) / st : (b - e - st - 1) / -st;
        out.d[a] = (int32_t)(count < 0 ? 0 : count);
        at[a] = (int32_t)(count > 0 ? b : 0);
        step[a] = (int32_t)(count > 1 ? st : 1);
    }
    if (n < 0) return n;
    if (gwm_same_shape(&out, &x)) {
        bool whole = true;
        for (uint32_t i = 0; i < x.rank; i++) whole = whole && step[i] == 1;
        if (whole) return gwm_result(im, gwm_reshape(im, im->in[0], &x));
    }
    gwm_move_slice(&m, &x, &out, at, step);
    return gwm_result(im, emit_move(im, im->in[0], &m, &out, im->node->output[0]));
}

/* How long the pieces are: a list, or as many equal ones as there are outputs. */
static int split_sizes(struct gwm_import *im, int64_t side, int64_t *sizes, size_t max)
{
    int64_t given = 0, sum = 0;
    size_t pieces = im->node->n_output;
    int n = gwm_in(im, 1) ? gwm_in_ints(im, 1, sizes, (int)max) : gwm_attr_ints(im, "split", sizes, (int)max);
    int err = gwm_attr_int(im, "num_outputs", &given);

    if (err < 0 || (n < 0 && n != -ENOENT)) return err < 0 ? err : n;
    if (pieces > max || (n >= 0 && (size_t)n != pieces))
        return gwm_op_fail(im, -EBADMSG, "%zu outputs, but its list has %d sizes", pieces, n);
    int64_t each = (side + (int64_t)pieces - 1) / (int64_t)pieces;
    for (size_t i = 0; i < pieces; i++) {
        if (n < 0) sizes[i] = side - sum < each ? side - sum : each;
        if (sizes[i] <= 0 || sizes[i] > side - sum)
            return gwm_op_fail(im, -EBADMSG, "a piece of %" PRId64, sizes[i]);
        sum += sizes[i];
    }
    return sum == side ? 0 : gwm_op_fail(im, -EBADMSG, "the split sizes do not add up to the axis");
}

static int ops_split(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, out = x;
    int32_t at[GW_MODEL_MAX_RANK] = {0}, step[GW_MODEL_MAX_RANK];
    int64_t axis = 0, sizes[256];
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_axis(im, axis, x.rank)) < 0) return err;
    int a = err;
    if ((err = split_sizes(im, x.d[a], sizes, 256)) < 0) return err;
    for (uint32_t i = 0; i < x.rank; i++) step[i] = 1;
    for (size_t i = 0; i < im->node->n_output; i++) {
        struct gwm_move m;
        out.d[a] = (int32_t)sizes[i];
        if (*im->node->output[i]) {
            gwm_move_slice(&m, &x, &out, at, step);
            err = gwm_result_at(im, i, emit_move(im, im->in[0], &m, &out, im->node->output[i]));
            if (err < 0) return err;
        }
        at[a] += out.d[a];
    }
    im->done = im->node->n_output;
    return 0;
}

/* ---- repeats ---- */

static int expand(struct gwm_import *im)
{
    int64_t d[GW_MODEL_MAX_RANK];
    int32_t at[GW_MODEL_MAX_RANK] = {0}, step[GW_MODEL_MAX_RANK];
    struct gwm_shape x = gwm_in(im, 0)->shape, to = {0}, out, wide = {0};
    struct gwm_broadcast bc;
    struct gwm_move m;
    int n = gwm_in_ints(im, 1, d, GW_MODEL_MAX_RANK);

    if (n < 0) return n;
    to.rank = (uint32_t)n;
    for (int i = 0; i < n; i++) {
        if (d[i] < 0 || d[i] > GWM_MAX_COUNT)
            return gwm_op_fail(im, -EBADMSG, "a dimension of %" PRId64, d[i]);
        to.d[i] = (int32_t)d[i];
    }
    if (gwm_count(&to) < 0 || gwm_broadcast(&bc, &out, &x, &to))
        return gwm_op_fail(im, -EBADMSG, "its input does not fit the shape");
    wide.rank = out.rank;
    for (uint32_t i = 0; i < out.rank; i++) {
        wide.d[i] = i < out.rank - x.rank ? 1 : x.d[i - (out.rank - x.rank)];
        step[i] = wide.d[i] == out.d[i] ? 1 : 0;
    }
    if (gwm_same_shape(&wide, &out)) return gwm_result(im, gwm_reshape(im, im->in[0], &out));
    gwm_move_slice(&m, &wide, &out, at, step);
    return gwm_result(im, emit_move(im, im->in[0], &m, &out, im->node->output[0]));
}

static int tile(struct gwm_import *im)
{
    int64_t times[GW_MODEL_MAX_RANK];
    int32_t at[GW_MODEL_MAX_RANK] = {0}, step[GW_MODEL_MAX_RANK];
    struct gwm_shape x = gwm_in(im, 0)->shape, out = x, from = {0}, box = {0};
    struct gwm_move m;
    int n = gwm_in_ints(im, 1, times, GW_MODEL_MAX_RANK);

    if (n < 0) return n;
    if ((uint32_t)n != x.rank) return gwm_op_fail(im, -EBADMSG, "%d repeats for %u dimensions", n, x.rank);
    for (uint32_t i = 0; i < x.rank; i++) { /* each axis as two: repeats outside, elements inside */
        if (times[i] < 0 || times[i] > GWM_MAX_COUNT || (int64_t)x.d[i] * times[i] > GWM_MAX_COUNT)
            return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
        out.d[i] = (int32_t)(x.d[i] * times[i]);
        for (int k = 0; k < 2; k++) {
            int32_t side = k ? x.d[i] : (int32_t)times[i];
            if (side == 1) continue;
            if (box.rank == GW_MODEL_MAX_RANK)
                return gwm_op_fail(im, -ENOTSUP, "repeats along too many dimensions");
            step[box.rank] = k;
            from.d[box.rank] = k ? side : 1;
            box.d[box.rank++] = side;
        }
    }
    from.rank = box.rank;
    if (gwm_count(&out) < 0) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    gwm_move_slice(&m, &from, &box, at, step);
    return gwm_result(im, emit_move(im, im->in[0], &m, &out, im->node->output[0]));
}

const struct gwm_operator gwm_ops_move[] = {
    {"Transpose", 1, 1, true, "perm ", transpose},
    {"DepthToSpace", 1, 1, false, "blocksize mode ", depth_to_space},
    {"SpaceToDepth", 1, 1, false, "blocksize ", space_to_depth},
    {"Concat", 1, GWM_MAX_INPUTS, true, "axis ", ops_concat},
    {"Slice", 1, 5, true, "axes ends starts ", ops_slice},
    {"Split", 1, 2, true, "axis num_outputs split ", ops_split},
    {"Expand", 2, 2, true, "", expand},
    {"Tile", 2, 2, true, "", tile},
    {0},
};
