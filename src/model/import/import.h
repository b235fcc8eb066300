/* SPDX-License-Identifier: Apache-2.0 */
/* A file in ONNX' format becomes a graph. */
#ifndef GW_MODEL_IMPORT_H
#define GW_MODEL_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "src/model/graph/graph.h"
#include "src/model/graph/msg.h"
#include "src/model/import/check.h"

/* The graph keeps what it needs of the bytes. */
int gwm_import(const void *bytes, size_t len, struct gwm_graph **graph, const struct gwm_msg *msg);

/* The same with weights in other files of the folder `dir` (a descriptor, or -1: none may be). With `check`,
 * nodes that fail are told to it, and the rest is looked at all the same; the result is then -ENOTSUP. */
int gwm_import_file(const void *bytes, size_t len, int dir, const struct gwm_check *check,
                    struct gwm_graph **graph, const struct gwm_msg *msg);
/* The same file with another size of the open batch dimension. */
int gwm_import_rows(const struct gwm_graph *g, uint32_t rows, struct gwm_graph **graph,
                    const struct gwm_msg *msg);

#endif
