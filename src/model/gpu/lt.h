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

/* Ways to do a convolution with one tap, and a product; see struct gwm_way. */
int gwm_lib_pointwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
int gwm_lib_gemm(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);

#endif
