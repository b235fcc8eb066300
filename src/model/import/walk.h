/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a file become a graph. */
#ifndef GW_MODEL_IMPORT_WALK_H
#define GW_MODEL_IMPORT_WALK_H

#include "src/model/import/ops.h"

int gwm_import_graph(struct gwm_import *im, const Onnx__GraphProto *graph);

#endif
