/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the graph smaller before any back-end sees it. */
#ifndef GW_MODEL_GRAPH_FUSE_H
#define GW_MODEL_GRAPH_FUSE_H

#include "src/model/graph/graph.h"

/* Needs no message but for -ENOMEM. */
int gwm_optimise(struct gwm_graph *g);

#endif
