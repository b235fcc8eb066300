/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one matrix with several constants. */
#ifndef GW_MODEL_GRAPH_SIBLINGS_H
#define GW_MODEL_GRAPH_SIBLINGS_H

#include "src/model/graph/graph.h"

/* Products of one matrix with several constants become one. Keeps uses and maker true. */
void gwm_join_siblings(struct gwm_graph *g, int *uses, int *maker);

#endif
