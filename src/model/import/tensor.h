/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the file. */
#ifndef GW_MODEL_IMPORT_TENSOR_H
#define GW_MODEL_IMPORT_TENSOR_H

#include "src/model/import/ops.h"

/* A tensor of the file becomes a constant; its number. */
int gwm_tensor(struct gwm_import *im, const Onnx__TensorProto *t);
/* The type of ONNX' number for it: enum gw_dtype, or 0. And its name in messages. */
uint32_t gwm_type(int64_t data_type);
const char *gwm_type_name(int64_t data_type);

#endif
