/* SPDX-License-Identifier: Apache-2.0 */
/* Included by lbp_kernels.c for the CPU and by lbp_kernels.cu for the GPU. */
#include "apps/faceverify/lbp.h"
#include "apps/faceverify/tests/lbp_kernels.h"

/* Each block has its own picture and its own value. */
GW_KERNEL(lbp_kernel, struct lbp_args, a)
{
    GW_SHARED(struct face_desk, desk);
    struct lbp_case *c = &a->cases[gw_block_idx()];
    uint32_t i, terms;

    face_desk_prepare(desk);
    for (i = 0; i < LBP_ROUNDS; i++) { /* a desk that was used gives the same */
        face_block_histogram(desk, c->picture, &c->own);
        gw_copy_share(&desk->on.value, &c->value, sizeof(c->value), gw_thread_idx(), gw_block_dim());
        gw_syncthreads();
        terms = face_block_compare(desk, &c->own);
        if (gw_thread_idx() == 0) c->terms[i] = terms;
    }
}
