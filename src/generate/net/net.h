/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network: what computes steps. It is a table of functions, so that a row program on CPU threads, one on a
 * GPU, and graphs that PyTorch has captured look the same to the worker.
 *
 * The worker describes the network, binds it to memory, adds its stages to the loop, and frees it when the
 * loop has ended. All of that is the host's, one thread at a time. Functions return 0 or a negative errno,
 * with the reason in gw_last_error().
 */
#ifndef GW_GENERATE_NET_NET_H
#define GW_GENERATE_NET_NET_H

#include <stdint.h>

#include <gpuwire/loop.h>

#include "src/generate/step/step.h"

#define GEN_NET_SIZES 16u

/* What a network is. */
struct gen_net_shape {
    const char *kind;      /* "program", "captured": for messages and the server's metadata */
    uint32_t vocab;        /* logits of a row; tokens are below */
    uint32_t max_position; /* positions that the network knows; a request has that number of tokens at most */
    uint32_t layers, heads, width, dtype; /* of the cache: step.h */
    /* The numbers of rows for which stages can be added, ascending. A CPU network has one: it runs the rows
     * that are there. */
    uint32_t size[GEN_NET_SIZES], sizes;
    /* Not 0: the network knows no pages. Lane i has pages i * (its most) and on, none is shared, and the
     * number of lanes and positions is fixed. */
    uint32_t fixed_lanes, fixed_positions;
    /* Not 0: the network brings the memory that it shares with the scheduler, with that much room. */
    uint32_t own_lanes, own_lane_pages, own_pages;
    uint64_t weight_bytes;
};

/* The memory that the network and the scheduler share; of the loop's executor. */
struct gen_net_memory {
    struct gen_step *step; /* as kernels see it; its numbers and arrays are set */
    struct gen_cache cache;
    float *logits;         /* [lanes][logit_stride] */
    uint32_t logit_stride; /* `vocab`, or more: floats */
};

struct gen_net_ops {
    void (*shape)(const void *net, struct gen_net_shape *out);
    /*
     * Tells the network where all of it lies, before `add`. On entry *memory has what the worker has made. A
     * network with memory of its own (own_lanes) puts that there instead, and returns 1.
     */
    int (*bind)(void *net, struct gw_exec *exec, struct gen_net_memory *memory);
    /* Appends the stages that run `size` rows, one of the shape's, to a variant of the loop. */
    int (*add)(void *net, struct gw_loop *loop, uint32_t variant, uint32_t size);
    void (*free)(void *net);
};

struct gen_net {
    const struct gen_net_ops *ops;
    void *own;
};

#endif
