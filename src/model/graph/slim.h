/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that a plan was made of holds constants that the plan has copied. They can go. */
#ifndef GW_MODEL_SLIM_H
#define GW_MODEL_SLIM_H

#include <stdbool.h>
#include <stddef.h>

#include "src/model/graph/graph.h"

/* Addresses that are still read. */
struct gwm_slim {
    const void **at;
    size_t n, cap;
    bool full; /* no memory for all of them: nothing goes */
};

void gwm_slim_need(struct gwm_slim *s, const void *at);
/* What nodes point to; of those whose constants have been copied, only what messages tell. */
void gwm_slim_nodes(struct gwm_slim *s, const struct gwm_graph *g, const bool *copied);
/* Frees all large constants of the graph, and of the file that it came from, but those that are needed, and
 * *s. */
void gwm_slim(struct gwm_graph *g, struct gwm_slim *s);

#endif
