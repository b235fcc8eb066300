/* SPDX-License-Identifier: Apache-2.0 */
/* Products of any types and shapes, and attention with any cache: right everywhere, fast nowhere. */
#ifndef GW_GENERATE_GPU_KERNELS_SQUARE_H
#define GW_GENERATE_GPU_KERNELS_SQUARE_H

#include "src/generate/gpu/kernels/linear.h"

struct gen_square_room { /* a column more, so that a warp meets all banks */
    float w[GEN_GPU_SQUARE][GEN_GPU_SQUARE + 1], x[GEN_GPU_SQUARE][GEN_GPU_SQUARE + 1];
};

GW_DEV void gen_square_fetch(const struct gen_linear_args *a, const struct gen_linear_place *p,
                             uint32_t first, struct gen_square_room *room)
{
    const struct gen_matrix *w = &a->w[p->matrix];
    uint32_t e;

    for (e = gw_thread_idx(); e < GEN_GPU_SQUARE * GEN_GPU_SQUARE; e += gw_block_dim()) {
        uint32_t i = e / GEN_GPU_SQUARE, k = e % GEN_GPU_SQUARE, in = first + k < w->k;
        room->w[i][k] = in && p->n + i < w->n ? gen_matrix_get(w, p->n + i, first + k) : 0;
        room->x[i][k] = in && p->row + i < p->rows ? gen_row_get(&a->x, p->row + i, first + k) : 0;
    }
}

/* Each thread has eight elements of the square. */
GW_KERNEL(gen_linear_square, struct gen_linear_args, a)
{
    GW_SHARED(struct gen_square_room, room);
    struct gen_linear_place p = gen_linear_place(a, GEN_GPU_SQUARE, GEN_GPU_SQUARE);
    uint32_t k, i, e, n = gw_thread_idx() % GEN_GPU_SQUARE, row = gw_thread_idx() / GEN_GPU_SQUARE;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};

    if (p.row >= p.rows) return;
    for (k = 0; k < a->w[p.matrix].k; k += GEN_GPU_SQUARE) {
        gw_syncthreads(); /* all have used the squares before */
        gen_square_fetch(a, &p, k, room);
        gw_syncthreads(); /* all of them is there */
        for (i = 0; i < GEN_GPU_SQUARE; i++) {
            GWM_UNROLL
            for (e = 0; e < 8; e++) sum[e] += room->w[n][i] * room->x[row + 4 * e][i];
        }
    }
    GWM_UNROLL
    for (e = 0; e < 8; e++) gen_linear_put(a, &p, p.n + n, p.row + row + 4 * e, sum[e]);
}

#endif
