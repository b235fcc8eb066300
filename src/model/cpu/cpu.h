/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for the CPU: buffers, and steps that read and write them. */
#ifndef GW_MODEL_CPU_H
#define GW_MODEL_CPU_H

#include "src/model/graph/arena.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/share.h"

enum gwm_buf_kind { GWM_BUF_ARENA, GWM_BUF_FIXED, GWM_BUF_IN, GWM_BUF_OUT };

/* Memory that steps read and write. The first nvalue buffers are the graph's roots in C order. */
struct gwm_buf {
    enum gwm_buf_kind kind;
    int index;             /* IN, OUT: which one */
    void *fixed;           /* FIXED: constants */
    struct gwm_span *span; /* ARENA; set when all buffers are known */
    size_t bytes;
    int first, last; /* steps that use it; first is -1 before any */
};

struct gwm_prim;
struct gwm_join;
struct gwm_dnnl;

struct gwm_step {
    const struct gwm_node *node; /* own loops; or */
    struct gwm_prim *prim;       /* a primitive of oneDNN; or */
    struct gwm_join *join;       /* our loop over channels that are put together */
};

struct gwm_cpu {
    const struct gwm_graph *g;
    struct gwm_buf *buf;
    struct gwm_step *step;
    int nbuf, cap_buf, nstep, cap_step;
    bool *plain;       /* per root: written in C order by now */
    bool *done;        /* per node: another one\'s step does its work too */
    int *uses, *maker; /* per root, as gwm_uses gives them */
    bool *odd;         /* per root, as gwm_odd gives them */
    bool odd_node;     /* while a node is added: its numbers may be NaN whatever the inputs are */
    bool wary;         /* some steps depend on the inputs' numbers */
    bool careful;      /* of the run under way: its inputs are out of the ordinary */
    const void **args; /* room for one node's inputs */
    struct gwm_span *span;
    struct gw_weights *weights, *own_weights; /* own: NULL where others have them too */
    struct gw_plan_arena *room, *own_room;
    char *arena;                            /* in `room` */
    size_t arena_bytes, weight_bytes, most; /* most: of both together */
    size_t arena_added;                     /* by this plan to a room of several */
    int threads;
    void (*set_threads)(int);
    struct gwm_dnnl *dnnl;
    const void *const *in; /* of the run under way */
    void *const *out;
};

#endif
