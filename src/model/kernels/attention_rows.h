/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with a thread for each row of Q: on CPU threads, where tests run it, and on GPUs that lack the
 * tensor cores. */
#ifndef GW_MODEL_ATTENTION_ROWS_H
#define GW_MODEL_ATTENTION_ROWS_H

#include "src/model/kernels/device.h"

GW_DEV float gwm_dot(const struct gwm_view *a, int32_t at, const struct gwm_view *b, int32_t bt, int32_t n)
{
    float sum = 0;
    int32_t i;

    for (i = 0; i < n; i++) sum += gwm_get(a, at + i) * gwm_get(b, bt + i);
    return sum;
}

/* Where the factors of a head lie: q, of one row; k, v of all keys. */
struct gwm_head {
    struct gwm_view q, k, v;
    int32_t q_at, k_at, v_at;
};

/* One row of Q: `sum` gets what the values add up to, weighted. The sum of the weights. */
GW_DEV float gwm_attend_row(const struct gwm_attention_args *a, const struct gwm_head *h, int32_t size,
                            float *sum)
{
    float most = -INFINITY, all = 0;
    int32_t i, j;

    for (j = 0; j < a->keys; j++)
        most = gwm_larger(most, a->scale * gwm_dot(&h->q, h->q_at, &h->k, h->k_at + j * a->k_at.row, size));
    for (i = 0; i < size; i++) sum[i] = 0;
    for (j = 0; j < a->keys; j++) {
        float w = expf(a->scale * gwm_dot(&h->q, h->q_at, &h->k, h->k_at + j * a->k_at.row, size) - most);
        for (i = 0; i < size; i++) sum[i] += w * gwm_get(&h->v, h->v_at + j * a->v_at.row + i);
        all += w;
    }
    return all;
}

GW_SLOW_DEV void gwm_attend_rows(const struct gwm_attention_args *a, int32_t size)
{
    int32_t tiles = (a->queries - 1) / a->rows + 1, product = (int32_t)gw_block_idx() / tiles;
    int32_t first = (int32_t)gw_block_idx() % tiles * a->rows, step = (int32_t)gw_block_dim(), r, i;
    int32_t q_at = gwm_lines_start(&a->q_at, product, a->heads);
    int32_t to = gwm_lines_start(&a->y_at, product, a->heads);
    struct gwm_view y = gwm_view(&a->y);
    struct gwm_head h;
    float sum[GWM_HEAD_MAX], by;

    h.q = gwm_view(&a->q), h.k = gwm_view(&a->k), h.v = gwm_view(&a->v);
    h.k_at = gwm_lines_start(&a->k_at, product, a->heads);
    h.v_at = gwm_lines_start(&a->v_at, product, a->heads);
    for (r = (int32_t)gw_thread_idx(); r < a->rows && first + r < a->queries; r += step) {
        h.q_at = q_at + (first + r) * a->q_at.row;
        by = a->by / gwm_attend_row(a, &h, size, sum);
        for (i = 0; i < size; i++) gwm_set(&y, to + (first + r) * a->y_at.row + i, by * sum[i]);
    }
}

#endif
