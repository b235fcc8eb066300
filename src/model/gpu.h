/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the GPU back-end: gpu.c keeps buffers, launches and memory; gpu_conv.c and gpu_lower.c turn nodes
 * into launches. */
#ifndef GW_MODEL_GPU_H
#define GW_MODEL_GPU_H

#include <gpuwire/exec.h>

#include "src/model/arena.h"
#include "src/model/kernels.h"
#include "src/model/place.h"

/* Where a kernel's argument points to. */
enum gwm_mem { GWM_MEM_ARENA, GWM_MEM_CONST, GWM_MEM_IN, GWM_MEM_OUT };

struct gwm_gpu_buf {
    enum gwm_mem mem;
    int index;     /* IN, OUT */
    size_t offset; /* CONST: in the constants */
    int span;      /* ARENA */
};

/* An address inside a launch's arguments that is filled in: a struct gwm_ref when the buffer is an input or
 * an output. */
struct gwm_fix {
    size_t at; /* offset in the arguments */
    int buf;
};

struct gwm_launch {
    const struct gw_kernel *kernel;
    uint32_t grid, block;
    void *args;
    struct gwm_fix fix[6];
    int nfix;
};

struct gwm_gpu {
    const struct gwm_graph *g;
    struct gw_exec *exec;
    bool own_exec, gpu_io;
    struct gwm_gpu_buf *buf; /* the first nvalue are the graph's roots */
    struct gwm_span *span;
    struct gwm_launch *launch;
    int nbuf, cap_buf, nspan, cap_span, nlaunch, cap_launch;
    char *consts; /* while planning: what is to be copied to the device */
    size_t nconst, cap_const;
    struct gw_mem const_mem, arena_mem, io_mem; /* io: the inputs and outputs of gwm_gpu_run */
    size_t most;                                /* bytes of device memory */
    size_t arena_bytes, in_at[GW_MODEL_MAX_IO], out_at[GW_MODEL_MAX_IO];
    int *uses, *maker; /* per root, as gwm_uses gives them */
    bool *done;        /* per node: another one's launch does its work too */
};

/* A buffer in the arena; or one of constants, which are copied. The number, -ENOMEM or -E2BIG. */
int gwm_gpu_scratch(struct gwm_gpu *p, size_t bytes);
int gwm_gpu_const(struct gwm_gpu *p, const void *data, size_t bytes);

/* A launch with a copy of its arguments, whose addresses are named next. */
int gwm_gpu_launch(struct gwm_gpu *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                   const void *args);
/* The launch made last has buffer `buf` at offset `at` of its arguments. Negative buffers are passed on as
 * errors. */
int gwm_gpu_fix(struct gwm_gpu *p, size_t at, int buf);

/* The buffer of a value, which for constants is made here. */
int gwm_gpu_value(struct gwm_gpu *p, int value);

/* gpu_lower.c */
int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n);

/* What a convolution does while it stores. */
struct gwm_store {
    int out; /* the value that is written */
    int add; /* a value added before the activation, or -1 */
    struct gwm_act act;
    int32_t block;    /* depth-to-space by this much; 1 is none */
    bool block_first; /* as in struct gwm_conv_args */
};

/* gpu_conv.c */
int gwm_gpu_conv(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to);

#endif
