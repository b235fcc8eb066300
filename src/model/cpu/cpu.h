/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the CPU back-end: cpu.c keeps buffers and steps, dnnl.c adds steps that oneDNN executes. */
#ifndef GW_MODEL_CPU_H
#define GW_MODEL_CPU_H

#include "src/model/graph/arena.h"
#include "src/model/place.h"

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
    char *arena;
    size_t arena_bytes, weight_bytes, most; /* most: of both together */
    int threads;
    void (*set_threads)(int);
    struct gwm_dnnl *dnnl;
    const void *const *in; /* of the run under way */
    void *const *out;
};

/* A new arena buffer, or step; its number, or -ENOMEM. */
int gwm_cpu_buf(struct gwm_cpu *p, size_t bytes);
int gwm_cpu_step(struct gwm_cpu *p, const struct gwm_node *node, struct gwm_prim *prim);
/* The step made last uses a buffer. */
void gwm_cpu_use(struct gwm_cpu *p, int buf);
/* Where a buffer is in the run under way (before one: NULL for inputs and outputs). */
void *gwm_cpu_at(const struct gwm_cpu *p, int buf);

/*
 * dnnl.c and dnnl_*.c, which alone know oneDNN's API (2.6 and 3.x). Adding a node may add steps that
 * change layouts. -ENOTSUP when oneDNN has nothing for it.
 */
int gwm_dnnl_new(struct gwm_cpu *p);
void gwm_dnnl_free(struct gwm_dnnl *d);
int gwm_dnnl_add(struct gwm_cpu *p, const struct gwm_node *n);
/* Makes sure that a root's buffer in C order is written. */
int gwm_dnnl_plain(struct gwm_cpu *p, int root);
/* After the arena is there. */
int gwm_dnnl_bind(struct gwm_cpu *p);
int gwm_dnnl_run(struct gwm_cpu *p, struct gwm_prim *prim);
void gwm_join_run(struct gwm_cpu *p, struct gwm_join *j);

#endif
