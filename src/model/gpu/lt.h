/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt. */
#ifndef GW_MODEL_GPU_LT_H
#define GW_MODEL_GPU_LT_H

#include "src/model/gpu/lib.h"
#include "src/model/gpu/store.h"

/* Of a library that plans of this process may use after the file is gone: handles are never closed. */
struct gwm_lt *gwm_lt_open(void);
void gwm_lt_close(struct gwm_lt *t);
size_t gwm_lt_version(const struct gwm_lt *t);

/*
 * Products that belong to no plan: y = x wᵀ, for `rows` rows of x. Rows of w have k elements; rows of x and
 * of y are ldx and ldy elements apart. x begins x_start bytes after an address that is aligned as memory of
 * the GPU is; w and y begin at such addresses. The call takes the addresses w, x, bias, y, what is added
 * (laid out as y), and work memory. 0; -ENOTSUP: cuBLASLt cannot do it; -ENOMEM.
 */
struct gwm_lt_shape {
    int64_t n, rows, k, ldx, ldy;
    size_t x_start;
    uint32_t type, y_type; /* enum gw_dtype: of w and x; of y, the bias and what is added */
    bool bias, sum;
};
int gwm_lt_product(struct gwm_lt *t, const struct gwm_lt_shape *s, struct gwm_call **call, size_t *work);

/* Ways to do a convolution with one tap, and a product; see struct gwm_way. */
int gwm_lib_pointwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
int gwm_lib_gemm(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);

#endif
