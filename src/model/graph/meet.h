/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do rows of a batch meet? They do when one row's results depend on another row's inputs: a softmax over the
 * batch, attention across it, a row that is moved to another place. Such a model must run one request at a
 * time, or one client sees another one's data.
 *
 * The answer is read from the graph, whatever the numbers are: a run shows only what its numbers make of it.
 */
#ifndef GW_MODEL_MEET_H
#define GW_MODEL_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gwm_rows {
    GWM_ROWS_APART,   /* no result depends on another row, whatever the numbers */
    GWM_ROWS_MEET,    /* one does, or may */
    GWM_ROWS_UNKNOWN, /* the graph does not tell, or there is none */
};

struct gwm_graph;

/* Of a graph for that many rows. Unless rows are apart, writes the node that is the reason: "node 'NAME'
 * (TYPE)", or an empty text. */
enum gwm_rows gwm_graph_rows(const struct gwm_graph *g, uint32_t rows, char *node, size_t size);
/* Do the graphs of one file for two numbers of rows compute with different numbers? Then a row's results
 * depend on how many others share its batch. */
bool gwm_graphs_differ(const struct gwm_graph *a, const struct gwm_graph *b, char *node, size_t size);

#endif
