/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network of graphs that a program has captured, PyTorch say, one for each number of rows. The graphs hold
 * addresses: of the step, its arrays, the cache and the logits. So the program takes that memory, and says
 * where it lies.
 */
#ifndef GW_GENERATE_CAPTURED_CAPTURED_H
#define GW_GENERATE_CAPTURED_CAPTURED_H

#include "src/generate/net/net.h"

/* A graph's rows, and the graph: a cudaGraph_t. */
struct gen_captured_graph {
    uint32_t rows;
    void *graph;
};

/* What the graphs work on. The addresses are the GPU's. */
struct gen_captured {
    uint32_t vocab, max_position;
    uint64_t weight_bytes;
    uint32_t max_rows, lanes, lane_pages; /* room of the arrays */
    void *step; /* sizeof(struct gen_step) bytes, which the network fills at first */
    uint32_t *token, *position, *lane, *out, *page;
    struct gen_run *run;
    struct gen_cache cache;
    float *logits;                          /* [lanes][vocab] */
    const struct gen_captured_graph *graph; /* by ascending rows; the last has max_rows */
    uint32_t graphs;
};

/*
 * Copies the graphs into a network. The memory that they use stays as it is until the network is freed. 0;
 * -EINVAL: numbers out of range, or addresses that are no multiples of their elements' sizes; -ENOMEM;
 * -ENODEV: built without CUDA; -EIO. The reason is in gw_last_error().
 */
int gen_captured_net(const struct gen_captured *c, struct gen_net *out);

#endif
