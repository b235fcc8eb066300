/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for the GPU while it is built, and what runs later: buffers, launches, and notes about the graph's
 * nodes and values.
 */
#ifndef GW_MODEL_GPU_H
#define GW_MODEL_GPU_H

#include <gpuwire/exec.h>

#include "src/model/graph/arena.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/share.h"
#include "src/model/kernels/program.h"

/* Where a kernel's argument points to. */
enum gwm_mem { GWM_MEM_ARENA, GWM_MEM_CONST, GWM_MEM_IN, GWM_MEM_OUT };

/* How a tensor lies in memory: these bits, 0 is fp32 in C order. */
#define GWM_HALF  1u /* elements are fp16 */
#define GWM_LAST  2u /* N H W C */
#define GWM_FORMS 4
#define GWM_FIXED 4 /* after the forms: a copy, at a fixed address, of what an input or output holds */
#define GWM_SLOTS 5

struct gwm_gpu_buf {
    enum gwm_mem mem;
    int index;        /* IN, OUT */
    uint32_t type;    /* enum gw_dtype */
    size_t bytes;     /* ARENA, CONST */
    const void *data; /* CONST: what is copied there */
    void *own;        /* CONST: data, when it is the buffer's */
};

/* An address inside a launch's arguments that is filled in; or, of a call, the address of that number. */
struct gwm_fix {
    size_t at;
    int buf;
    bool ref; /* a struct gwm_ref */
};

/* A call of a library that launches kernels. */
struct gwm_call {
    int (*run)(struct gwm_call *c, void *const addr[], void *stream);
    void (*free)(struct gwm_call *c);
    const char *name;
};

#define GWM_FIXES 8

struct gwm_launch {
    const struct gw_kernel *kernel; /* NULL: a call */
    uint32_t grid, block;
    void *args;
    struct gwm_call *call;
    int node; /* whose work it is, or -1 */
    struct gwm_fix fix[GWM_FIXES];
    int nfix;
};

struct gwm_lib;
struct gwm_cache;
struct gwm_timer;

struct gwm_gpu {
    const struct gwm_graph *g;
    struct gw_exec *exec;
    bool own_exec, gpu_io;
    bool half, last; /* intermediate results are fp16; pictures lie N H W C */
    bool tf32;
    bool resident;              /* the plan becomes a program, */
    struct gwm_program program; /* which is this, */
    struct gw_mem program_mem;  /* and lies here */
    struct gwm_program_times times;
    uint32_t program_runs;   /* in one launch; 0: one */
    float run_us;            /* what a run takes; 0: not measured */
    struct gwm_lib *lib;     /* NVIDIA's libraries, or NULL */
    struct gwm_timer *timer; /* NULL: nothing is measured */
    struct gwm_cache *cache;
    struct gwm_gpu_buf *buf;
    struct gwm_span *span; /* per buffer, when all are known; */
    char **at;             /* then where each lies */
    struct gwm_launch *launch;
    int nbuf, cap_buf, nlaunch, cap_launch;
    struct gw_weights *weights, *own_weights; /* own: NULL where others have them too */
    struct gw_plan_arena *room, *own_room;
    struct gwm_mark mark; /* of the weights, before the plan was begun */
    char *arena, *io;     /* in `room`; io: the inputs and outputs of gwm_gpu_run */
    size_t most;          /* bytes of device memory */
    size_t const_bytes, arena_bytes, in_at[GW_MODEL_MAX_IO], out_at[GW_MODEL_MAX_IO];
    size_t arena_added; /* by this plan to a room of several */
    /* Lowers a node: makes its launches. It is called for a node whose result was put off, when it is
     * read. */
    int (*lower)(struct gwm_gpu *p, const struct gwm_node *n);
    int node;          /* that is lowered now, or -1 */
    int *uses, *maker; /* per root, as gwm_uses gives them */
    bool *done;        /* per node: another one's launch does its work too */
    bool *put_off;     /* per node: its result is made when a node needs it */
    int *as;           /* per root GWM_SLOTS: the buffer that holds it in that form, or -1 */
    bool *picture;     /* per root: N H W C may suit it */
    int out[GW_MODEL_MAX_IO];
    bool staged[GW_MODEL_MAX_IO]; /* outputs that are copied at the end */
};

#endif
