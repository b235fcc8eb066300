/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that pick elements by index, or weigh a few of them along an axis: gathering, padding,
 * resizing. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/model/graph/move.h"
#include "src/model/import/ops.h"

/* Picks positions along an axis of x; `index` is a value with `count` of them. The value, in that shape. */
static int emit_gather(struct gwm_import *im, int x, int index, int axis, const struct gwm_shape *out,
                       const char *name)
{
    const struct gwm_shape s = im->g->value[x].shape;
    struct gwm_gather q = {.outer = 1, .n = s.d[axis], .inner = 1, .count = im->g->value[index].count};
    int in[2] = {x, index};

    for (int i = 0; i < (int)s.rank; i++) {
        if (i < axis) q.outer *= s.d[i];
        if (i > axis) q.inner *= s.d[i];
    }
    if (!q.n && q.count) return gwm_op_fail(im, -EBADMSG, "an axis without elements");
    int n = gwm_emit(im, GWM_GATHER, in, 2, out, name);
    if (n < 0) return n;
    im->g->node[n].gather = q;
    return gwm_settle(im, n);
}

static int ops_gather(struct gwm_import *im)
{
    const struct gwm_value *x = gwm_in(im, 0), *index = gwm_in(im, 1);
    struct gwm_shape out = {0};
    int64_t axis = 0;
    int err = gwm_attr_int(im, "axis", &axis);

    if (err < 0 || (err = gwm_axis(im, axis, x->shape.rank)) < 0) return err;
    if (index->dtype != GWM_I64) return gwm_op_fail(im, -EBADMSG, "its indices are no integers");
    if (x->shape.rank - 1 + index->shape.rank > GW_MODEL_MAX_RANK)
        return gwm_op_fail(im, -ENOTSUP, "more than 8 dimensions");
    for (int32_t i = 0; index->data && i < index->count; i++) {
        int64_t at = ((const int64_t *)index->data)[i], n = x->shape.d[err];
        if (at < -n || at >= n) return gwm_op_fail(im, -EBADMSG, "index %" PRId64 " of %" PRId64, at, n);
    }
    for (int i = 0; i < err; i++) out.d[out.rank++] = x->shape.d[i];
    for (uint32_t i = 0; i < index->shape.rank; i++) out.d[out.rank++] = index->shape.d[i];
    for (uint32_t i = (uint32_t)err + 1; i < x->shape.rank; i++) out.d[out.rank++] = x->shape.d[i];
    return gwm_result(im, emit_gather(im, im->in[0], im->in[1], err, &out, im->node->output[0]));
}

/* ---- padding ---- */

/* Reads how much to add before and after each dimension. */
static int ops_index_pads(struct gwm_import *im, uint32_t rank, int64_t *begin, int64_t *end)
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

/* Which position a padded axis shows at i, which may lie outside of [0, n). */
static int64_t mirrored(const char *mode, int64_t i, int64_t n)
{
    if (!strcmp(mode, "edge")) return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (!strcmp(mode, "wrap")) return (i % n + n) % n;
    int64_t period = n > 1 ? 2 * (n - 1) : 1;
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

static int pad_mirrored(struct gwm_import *im, const char *mode, const int64_t *begin, const int64_t *end)
{
    int v = im->in[0];

    if (strcmp(mode, "reflect") && strcmp(mode, "edge") && strcmp(mode, "wrap"))
        return gwm_op_fail(im, -ENOTSUP, "mode '%s'", mode);
    for (uint32_t a = 0; v >= 0 && a < im->g->value[v].shape.rank; a++) {
        struct gwm_shape s = im->g->value[v].shape, list = {.rank = 1};
        int64_t n = s.d[a], side = n + begin[a] + end[a];
        void *room;
        if (side == n) continue;
        if (side > GWM_MAX_COUNT || !n)
            return gwm_op_fail(im, -ENOTSUP, "its result has too many elements, or none");
        list.d[0] = s.d[a] = (int32_t)side;
        int index = gwm_const(im, GWM_I64, &list, NULL, &room);
        if (index < 0) return gwm_op_fail(im, index, "out of memory");
        for (int64_t i = 0; i < side; i++) ((int64_t *)room)[i] = mirrored(mode, i - begin[a], n);
        v = emit_gather(im, v, index, (int)a, &s, "");
    }
    struct gwm_act none = {.kind = GWM_ACT_NONE};
    return gwm_result(im, v < 0 ? v : gwm_emit_unary(im, none, v, im->node->output[0]));
}

/* Reads what lies in the padding: a float or an integer, as the input has. 0 or an error. */
static int pad_value(struct gwm_import *im, float *f, int64_t *i)
{
    const struct gwm_value *v = gwm_in(im, 2);
    uint32_t dtype = gwm_in(im, 0)->dtype;
    int err = v ? 0 : gwm_attr_float(im, "value", f);

    if (err < 0) return err;
    if (!v && dtype != GWM_F32 && *f != 0) /* that attribute is older than the padding of integers */
        return gwm_op_fail(im, -ENOTSUP,
                           "what pads integers must be its third input, not the attribute value");
    if (!v) return 0;
    if (!v->data || v->count != 1 || v->dtype != dtype)
        return gwm_op_fail(im, -ENOTSUP, "its value must be a constant number of the input's type");
    if (dtype == GWM_F32)
        *f = *(const float *)v->data; /* of float64 the bits are in *i */
    else
        *i = *(const int64_t *)v->data;
    return 0;
}

static int pad(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, s = x;
    int64_t begin[GW_MODEL_MAX_RANK] = {0}, end[GW_MODEL_MAX_RANK] = {0};
    int32_t at[GW_MODEL_MAX_RANK];
    char mode[16] = "constant";
    int64_t pad_int = 0;
    float pad_float = 0;
    int err = gwm_attr_string(im, "mode", mode, sizeof(mode));

    if (err < 0 || (err = pad_value(im, &pad_float, &pad_int)) < 0 ||
        (err = ops_index_pads(im, x.rank, begin, end)) < 0)
        return err;
    if (strcmp(mode, "constant")) return pad_mirrored(im, mode, begin, end);
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
    im->g->node[n].mv.pad_float = pad_float;
    im->g->node[n].mv.pad_int = pad_int;
    return gwm_result(im, gwm_settle(im, n));
}

/* The elements on one side of a diagonal; the others become 0. */
static int trilu(struct gwm_import *im)
{
    struct gwm_shape x = gwm_in(im, 0)->shape, two = {.rank = 2}, one = {0};
    int64_t upper = 1, k = 0;
    void *room, *zero;
    int err = gwm_attr_int(im, "upper", &upper);

    if (err < 0 || (gwm_in(im, 1) && (err = gwm_in_ints(im, 1, &k, 1)) < 0)) return err;
    if (x.rank < 2) return gwm_op_fail(im, -EBADMSG, "its input is no matrix");
    two.d[0] = x.d[x.rank - 2];
    two.d[1] = x.d[x.rank - 1];
    int mask = gwm_const(im, GWM_I64, &two, NULL, &room),
        none = mask < 0 ? mask : gwm_const(im, gwm_in(im, 0)->dtype, &one, NULL, &zero);
    if (none < 0) return gwm_op_fail(im, none, "out of memory");
    for (int64_t r = 0; r < two.d[0]; r++)
        for (int64_t c = 0; c < two.d[1]; c++)
            ((int64_t *)room)[r * two.d[1] + c] = upper ? c - r >= k : c - r <= k;
    const struct gwm_shape *shapes[3] = {&two, &x, &one};
    int in[3] = {mask, im->in[0], none};
    struct gwm_select s;
    struct gwm_shape out;
    if (gwm_select_shape(&s, &out, shapes))
        return gwm_op_fail(im, -EBADMSG, "its input has too many elements");
    int n = gwm_emit(im, GWM_SELECT, in, 3, &out, im->node->output[0]);
    n = gwm_typed(im, n, gwm_in(im, 0)->type);
    if (n < 0) return n;
    im->g->node[n].select = s;
    return gwm_result(im, gwm_settle(im, n));
}

const struct gwm_operator gwm_ops_index[] = {
    {"Gather", 2, 2, true, "axis ", ops_gather},
    {"Pad", 1, 4, true, "mode pads value ", pad},
    {"Trilu", 1, 2, true, "upper ", trilu},
    {0},
};
