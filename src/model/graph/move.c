/* SPDX-License-Identifier: Apache-2.0 */
/* Strides: how boxes of elements are copied and repeated. */
#include <errno.h>
#include <string.h>

#include "src/model/graph/move.h"

static void dense_strides(const int32_t *dims, uint32_t rank, int32_t *stride)
{
    int32_t n = 1;

    for (uint32_t i = rank; i-- > 0;) {
        stride[i] = n;
        n *= dims[i] ? dims[i] : 1;
    }
}

/* Merges dimension i into i+1 where both strided views step through them as through one; drops sides of 1. */
static int32_t merge(int32_t rank, int32_t *dims, int32_t *a, int32_t *b)
{
    int32_t out = 0;

    for (int32_t i = 0; i < rank; i++) {
        if (dims[i] == 1) continue;
        if (out && a[out - 1] == a[i] * dims[i] && b[out - 1] == b[i] * dims[i]) {
            dims[out - 1] *= dims[i];
            a[out - 1] = a[i];
            b[out - 1] = b[i];
            continue;
        }
        dims[out] = dims[i];
        a[out] = a[i];
        b[out] = b[i];
        out++;
    }
    if (!out) { /* a single element */
        dims[0] = 1;
        a[0] = b[0] = 0;
        out = 1;
    }
    return out;
}

void gwm_move_permute(struct gwm_move *m, const int32_t *dims, uint32_t rank, const int32_t *perm)
{
    int32_t stride[GW_MODEL_MAX_RANK];

    memset(m, 0, sizeof(*m));
    dense_strides(dims, rank, stride);
    for (uint32_t i = 0; i < rank; i++) {
        m->dims[i] = dims[perm[i]];
        m->from[i] = stride[perm[i]];
    }
    dense_strides(m->dims, rank, m->to);
    m->rank = merge(rank, m->dims, m->from, m->to);
}

bool gwm_move_dense(const struct gwm_move *m, int32_t count)
{
    int32_t step = 1;

    for (int32_t d = m->rank - 1; d >= 0; step *= m->dims[d--])
        if (m->to[d] != step && m->dims[d] != 1) return false;
    return !m->offset && step == count;
}

void gwm_move_place(struct gwm_move *m, const struct gwm_shape *box, const struct gwm_shape *dst,
                    const int32_t *at)
{
    memset(m, 0, sizeof(*m));
    dense_strides(box->d, box->rank, m->from);
    dense_strides(dst->d, dst->rank, m->to);
    for (uint32_t i = 0; i < box->rank; i++) {
        m->dims[i] = box->d[i];
        m->offset += at[i] * m->to[i];
    }
    m->rank = merge((int32_t)box->rank, m->dims, m->from, m->to);
}

void gwm_move_slice(struct gwm_move *m, const struct gwm_shape *src, const struct gwm_shape *box,
                    const int32_t *at, const int32_t *step)
{
    memset(m, 0, sizeof(*m));
    dense_strides(src->d, src->rank, m->from);
    dense_strides(box->d, box->rank, m->to);
    for (uint32_t i = 0; i < box->rank; i++) {
        m->dims[i] = box->d[i];
        m->start += at[i] * m->from[i];
        m->from[i] *= step[i];
    }
    m->rank = merge((int32_t)box->rank, m->dims, m->from, m->to);
}

/* A dimension of a joined move, from the innermost on. */
static bool add_dim(struct gwm_move *m, int32_t n, int32_t from, int32_t to)
{
    if (m->rank == GW_MODEL_MAX_RANK) return false;
    m->dims[m->rank] = n;
    m->from[m->rank] = from;
    m->to[m->rank++] = to;
    return true;
}

/*
 * Takes n elements, `stride` apart in what `first` writes, to where it reads them. It cuts them in pieces
 * where a dimension of `first` ends. `at` are the coordinates of the last element so far in all dimensions.
 */
static bool join_dim(struct gwm_move *m, const struct gwm_move *first, int32_t n, int32_t stride, int32_t to,
                     int32_t *at)
{
    for (int32_t take; n > 1; n /= take, stride *= take, to *= take) {
        int32_t d = 0;
        while (d < first->rank &&
               (first->dims[d] == 1 || stride % first->to[d] || stride / first->to[d] >= first->dims[d]))
            d++;
        if (d == first->rank) return false;
        int32_t by = stride / first->to[d];
        take = first->dims[d] % by ? n : first->dims[d] / by;
        if (take > n) take = n;
        at[d] += (take - 1) * by;
        if (take < 2 || n % take || at[d] >= first->dims[d])
            return false; /* it would go on in another dimension */
        if (!add_dim(m, take, by * first->from[d], to)) return false;
    }
    return true;
}

bool gwm_move_join(struct gwm_move *first, const struct gwm_move *then)
{
    struct gwm_move m = {.start = first->start, .offset = then->offset};
    int32_t at[GW_MODEL_MAX_RANK] = {0}, rank;

    for (int32_t d = 0; d < first->rank; d++) {
        if (first->to[d] < 1) return false;
        at[d] = then->start / first->to[d] % first->dims[d];
        m.start += at[d] * first->from[d];
    }
    for (int32_t d = then->rank - 1; d >= 0; d--) {
        if (then->from[d] < 1 && then->dims[d] > 1) return false; /* it repeats elements */
        if (!join_dim(&m, first, then->dims[d], then->from[d], then->to[d], at)) return false;
    }
    if (!m.rank) return false;
    rank = m.rank;
    for (int32_t d = 0; d < rank; d++) {
        first->dims[d] = m.dims[rank - 1 - d];
        first->from[d] = m.from[rank - 1 - d];
        first->to[d] = m.to[rank - 1 - d];
    }
    first->rank = merge(rank, first->dims, first->from, first->to);
    for (int32_t d = first->rank; d < GW_MODEL_MAX_RANK; d++)
        first->dims[d] = first->from[d] = first->to[d] = 0;
    first->start = m.start;
    first->offset = m.offset;
    return true;
}

void gwm_broadcast_dims(struct gwm_broadcast *bc, const int32_t *dims, const int32_t *a, const int32_t *b,
                        uint32_t rank)
{
    size_t bytes = rank * sizeof(*dims);

    memset(bc, 0, sizeof(*bc));
    memcpy(bc->dims, dims, bytes);
    memcpy(bc->a, a, bytes);
    memcpy(bc->b, b, bytes);
    bc->rank = merge((int32_t)rank, bc->dims, bc->a, bc->b);
}

int gwm_broadcast(struct gwm_broadcast *bc, struct gwm_shape *out, const struct gwm_shape *a,
                  const struct gwm_shape *b)
{
    int32_t sa[GW_MODEL_MAX_RANK], sb[GW_MODEL_MAX_RANK];
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;

    memset(bc, 0, sizeof(*bc));
    memset(out, 0, sizeof(*out));
    dense_strides(a->d, a->rank, sa);
    dense_strides(b->d, b->rank, sb);
    for (uint32_t i = 0; i < rank; i++) {
        int ia = (int)i - (int)(rank - a->rank), ib = (int)i - (int)(rank - b->rank);
        int32_t da = ia < 0 ? 1 : a->d[ia], db = ib < 0 ? 1 : b->d[ib];
        if (da != db && da != 1 && db != 1) return -EINVAL;
        bc->dims[i] = da == 1 ? db : da;
        bc->a[i] = da == 1 ? 0 : sa[ia];
        bc->b[i] = db == 1 ? 0 : sb[ib];
        out->d[i] = bc->dims[i];
    }
    out->rank = rank;
    if (gwm_count(out) < 0) return -EOVERFLOW;
    bc->rank = merge((int32_t)rank, bc->dims, bc->a, bc->b);
    return 0;
}

int gwm_select_shape(struct gwm_select *s, struct gwm_shape *out, const struct gwm_shape *const in[3])
{
    struct gwm_shape two, first = *in[0];
    struct gwm_broadcast bc;
    int err = gwm_broadcast(&bc, &two, in[1], in[2]);

    if (!err) err = gwm_broadcast(&bc, out, &first, &two);
    if (err) return err;
    memset(s, 0, sizeof(*s));
    s->rank = out->rank ? (int32_t)out->rank : 1;
    if (!out->rank) s->dims[0] = 1;
    for (int k = 0; k < 3; k++) {
        int32_t stride[GW_MODEL_MAX_RANK];
        uint32_t skip = out->rank - in[k]->rank;
        dense_strides(in[k]->d, in[k]->rank, stride);
        for (uint32_t i = 0; i < out->rank; i++) {
            s->dims[i] = out->d[i];
            s->stride[k][i] = i < skip || in[k]->d[i - skip] == 1 ? 0 : stride[i - skip];
        }
    }
    return 0;
}
