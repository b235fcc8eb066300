/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by cuDNN. */
#ifndef GW_MODEL_GPU_CUDNN_H
#define GW_MODEL_GPU_CUDNN_H

#include "src/model/gpu/lib.h"
#include "src/model/gpu/store.h"

/* Of a library that plans of this process may use after the file is gone: handles are never closed. */
struct gwm_cudnn *gwm_cudnn_open(void);
void gwm_cudnn_close(struct gwm_cudnn *d);
size_t gwm_cudnn_version(const struct gwm_cudnn *d);

/* A way to do a convolution; see struct gwm_way. */
int gwm_lib_cudnn(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);

#endif
