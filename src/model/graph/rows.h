/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of whole rows around products. */
#ifndef GW_MODEL_GRAPH_ROWS_H
#define GW_MODEL_GRAPH_ROWS_H

#include "src/model/graph/graph.h"

/* Moves of whole rows go past products, and moves that follow each other become one. Keeps uses and
 * maker true. Joined nodes are dead. */
void gwm_move_rows(struct gwm_graph *g, int *uses, int *maker);

#endif
