/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix times a vector. A row's sum has one order, ../dot.h: so the result has the same bytes however many
 * threads there are, and on a GPU.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "../dot.h"
#include "baseline.h"
#include "vector.h"

enum { ROWS = 64 }; /* that a thread takes at a time */

struct product {
    struct mr_npy matrix, vector;
    const float *rows, *x;
    float *y;
};

VECTOR_VARIANTS(row_batch, (struct product * s, uint64_t i, uint64_t end), (s, i, end), {
    for (; i < end; i++) s->y[i] = mr_dot_loop(s->rows + i * s->matrix.columns, s->x, s->matrix.columns);
})

static void rows_multiply(void *arg, uint64_t batch)
{
    struct product *s = (struct product *)arg;
    uint64_t end = (batch + 1) * ROWS;

    row_batch(s, batch * ROWS, end < s->matrix.rows ? end : s->matrix.rows);
}

static int product_open(const struct input *in, struct mr_npy *npy, const float **values)
{
    int err =
        mr_npy_parse(in->bytes, in->size < MR_NPY_HEADER ? in->size : MR_NPY_HEADER, in->size, in->name, npy);

    if (!err && (npy->type != 'f' || npy->item != 4))
        err = gw_error(-EINVAL, "%s: must hold float32", in->name);
    *values = (const float *)(in->bytes + npy->start);
    return err;
}

int matrix_vector(const struct work *w)
{
    char header[MR_NPY_WRITTEN];
    struct product s;
    int err;

    if (w->inputs != 1 || !w->vector.name)
        return gw_error(-EINVAL, "needs a file, the matrix, and --vector FILE");
    if ((err = product_open(&w->input[0], &s.matrix, &s.rows)) ||
        (err = product_open(&w->vector, &s.vector, &s.x)))
        return err;
    if (s.vector.columns != 1 || s.vector.rows != s.matrix.columns)
        return gw_error(-EINVAL, "%s: must have %llu values", w->vector.name,
                        (unsigned long long)s.matrix.columns);
    s.y = (float *)malloc((s.matrix.rows + 1) * sizeof(*s.y));
    if (!s.y) return gw_error(-ENOMEM, "no memory for the result");
    parallel(w, (s.matrix.rows + ROWS - 1) / ROWS, rows_multiply, &s);
    fwrite(header, 1, mr_npy_header(header, s.matrix.rows, 0), w->out);
    fwrite(s.y, sizeof(*s.y), s.matrix.rows, w->out);
    free(s.y);
    return 0;
}
