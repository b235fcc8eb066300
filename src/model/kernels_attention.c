/* SPDX-License-Identifier: Apache-2.0 */
/* The same on CPU threads, row by row: so tests run it where there is no GPU. */
#include "src/model/kernels_attention.h"

static float dot(const uint16_t *a, const uint16_t *b, int32_t n)
{
    float sum = 0;

    for (int32_t i = 0; i < n; i++) sum += gwm_half_get(a[i]) * gwm_half_get(b[i]);
    return sum;
}

/* One row of Q: `sum` gets what the values add up to, weighted. The sum of the weights. */
static float weigh(const struct gwm_attention_args *a, const uint16_t *q, const uint16_t *k,
                   const uint16_t *v, int32_t size, float *sum)
{
    float most = -INFINITY, all = 0;

    for (int32_t j = 0; j < a->keys; j++) most = fmaxf(most, a->scale * dot(q, k + j * a->k_at.row, size));
    for (int32_t i = 0; i < size; i++) sum[i] = 0;
    for (int32_t j = 0; j < a->keys; j++) {
        float w = expf(a->scale * dot(q, k + j * a->k_at.row, size) - most);
        for (int32_t i = 0; i < size; i++) sum[i] += w * gwm_half_get(v[j * a->v_at.row + i]);
        all += w;
    }
    return all;
}

static void attend(const struct gwm_attention_args *a, int32_t size)
{
    int32_t tiles = (a->queries - 1) / a->rows + 1, product = (int32_t)gw_block_idx() / tiles;
    int32_t first = (int32_t)gw_block_idx() % tiles * a->rows, step = (int32_t)gw_block_dim();
    const uint16_t *q = (const uint16_t *)gwm_address(&a->q) + gwm_lines_start(&a->q_at, product, a->heads);
    const uint16_t *k = (const uint16_t *)gwm_address(&a->k) + gwm_lines_start(&a->k_at, product, a->heads);
    const uint16_t *v = (const uint16_t *)gwm_address(&a->v) + gwm_lines_start(&a->v_at, product, a->heads);
    int32_t to = gwm_lines_start(&a->y_at, product, a->heads);
    struct gwm_view y = gwm_view(&a->y);
    float sum[GWM_HEAD_MAX];

    for (int32_t r = (int32_t)gw_thread_idx(); r < a->rows && first + r < a->queries; r += step) {
        float by = a->by / weigh(a, q + (first + r) * a->q_at.row, k, v, size, sum);
        for (int32_t i = 0; i < size; i++) gwm_set(&y, to + (first + r) * a->y_at.row + i, by * sum[i]);
    }
}

#define GWM_ATTEND(size) attend_##size
#define ATTEND(size)                                                                                         \
    static void attend_##size(const struct gwm_attention_args *a)                                            \
    {                                                                                                        \
        attend(a, size);                                                                                     \
    }
ATTEND(32)
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
GWM_ATTENTIONS
