/* SPDX-License-Identifier: Apache-2.0 */
/* A network on a GPU, as the files of this folder know it. */
#ifndef GW_GENERATE_GPU_INSIDE_H
#define GW_GENERATE_GPU_INSIDE_H

#include <gpuwire/exec.h>

#include "src/generate/gpu/gpu.h"
#include "src/generate/gpu/kernels/args.h"
#include "src/model/gpu/lt.h"

/*
 * Work that is launched together: an operator, or several that one kernel computes.
 *
 *   LINEAR: up to GEN_GPU_MATRICES products of the same input; the sum with `add`, if that is a value.
 *   NORM:   the same.
 *   ATTEND: op[0]; before it, turns of queries (op[1]) and of keys (op[2]), where they are not NULL.
 */
#define GEN_ITEM_OPS 3
struct gen_item {
    enum gen_op_kind kind;
    const struct gen_op *op[GEN_ITEM_OPS];
    uint32_t ops;
    struct gen_part add;       /* value -1: none */
    int32_t out[GEN_ITEM_OPS]; /* values that it writes; `outs` of them */
    uint32_t outs;
    struct gen_part in[4]; /* parts that it reads; `ins` of them */
    uint32_t ins;
};

/* Memory of a value: of the arena, but for the logits. */
struct gen_value {
    uint32_t width, picked; /* not 0: a vector for each wanted row */
    uint32_t type;          /* enum gw_dtype */
    uint64_t at, bytes;
    uint32_t born, dies; /* items */
};

/* What was uploaded, by the address of the original: floats, a matrix, or factors of a norm, as floats. */
enum gen_upload_kind {
    GEN_UPLOAD_FLOATS,
    GEN_UPLOAD_NARROW, /* floats that became the values' type */
    GEN_UPLOAD_MATRIX,
    GEN_UPLOAD_FACTORS,
    GEN_UPLOAD_PLUS_ONE
};
struct gen_upload {
    enum gen_upload_kind kind;
    const void *from;
    uint64_t n, k;
    struct gw_mem mem;
    struct gen_matrix matrix; /* of weights */
};

/* A kernel, or (kernel NULL) a call of cuBLASLt with its addresses. */
#define GEN_GPU_ADDRESSES 6
struct gen_launch {
    const struct gw_kernel *kernel;
    uint32_t grid, block;
    void *arg;
    struct gwm_call *call;
    void *address[GEN_GPU_ADDRESSES];
};

struct gen_launches {
    struct gen_launch *at;
    uint32_t n, cap;
};

struct gen_gpu {
    struct gw_exec *exec;
    struct gen_gpu_options o;
    struct gen_net_shape shape;
    uint32_t threads;     /* of blocks that need no certain number of them */
    struct gen_program p; /* a copy, whose pointers hold while the network is made */
    struct gen_item *item;
    uint32_t items;
    struct gen_value *value;
    struct gen_upload *upload;
    uint32_t uploads, cap_uploads;
    uint64_t arena_bytes, partial_bytes;
    struct gw_mem arena, partial, tiles, work;
    struct gwm_lt *lt;            /* cuBLASLt; NULL: own kernels do all */
    struct gen_net_memory memory; /* once bound */
    bool bound;
    struct gen_launches list[GEN_NET_SIZES]; /* of each size, once asked for */
};

/* plan.c: items, and where values lie. */
int gen_gpu_plan(struct gen_gpu *g);

/* upload.c: where a weight, a bias or table (NULL stays NULL), a bias for cuBLASLt, and a norm's factors lie.
 * Once the network is made they find what is there, and do not look at the original. 0, -ENOMEM, or what
 * gw_mem_alloc and gw_copy_in return. */
int gen_gpu_matrix(struct gen_gpu *g, const struct gen_weight *w, struct gen_matrix *out);
int gen_gpu_floats(struct gen_gpu *g, const float *from, uint64_t n, const float **out);
int gen_gpu_narrow(struct gen_gpu *g, const float *from, uint64_t n, void **out);
int gen_gpu_factors(struct gen_gpu *g, const struct gen_weight *w, bool plus_one, const float **out);
/* Uploads all that the program's operators name. */
int gen_gpu_upload(struct gen_gpu *g);
void gen_gpu_unload(struct gen_gpu *g);

/* launch.c: appends a launch with a copy of its arguments. */
int gen_gpu_launch(struct gen_launches *l, const struct gw_kernel *kernel, uint64_t grid, uint32_t block,
                   const void *arg);
/* Appends a call, which is handed over. */
int gen_gpu_call(struct gen_launches *l, struct gwm_call *call, void *const address[GEN_GPU_ADDRESSES]);
void gen_gpu_forget(struct gen_launches *l);
/* One of them, into a stream; 0 or -EIO. */
int gen_gpu_put(const struct gen_launch *q, void *stream);
/* Into a stream, or (NULL) on the executor; on CPU threads it waits for the end. */
int gen_gpu_run(struct gw_exec *exec, const struct gen_launches *l, void *stream);

/* rows.c: where a part of a value lies, and how many rows there are of it. */
struct gen_rows gen_gpu_rows(const struct gen_gpu *g, struct gen_part part);
struct gen_rows gen_gpu_out(const struct gen_gpu *g, int32_t value);
uint32_t gen_gpu_parts(uint32_t width); /* blocks that share a row of that width */
struct gen_count gen_gpu_count(const struct gen_gpu *g, int32_t value, uint32_t size);

/* linear.c, attend.c, rows.c: an item's launches for `size` rows. */
int gen_gpu_linear(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l);
int gen_gpu_attend(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l);
int gen_gpu_each(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l);
/* attend.c: how heads are turned, or (turn NULL) read as they are. */
int gen_gpu_turn(struct gen_gpu *g, const struct gen_op *turn, struct gen_part part, uint32_t head,
                 struct gen_turn *out);
/* Bytes of parts that the item needs for `size` rows; what comes before all items. */
uint64_t gen_gpu_partial(const struct gen_gpu *g, const struct gen_item *it, uint32_t size);
uint64_t gen_gpu_tiles_bytes(const struct gen_gpu *g); /* of all tables */
int gen_gpu_tiles(struct gen_gpu *g, uint32_t size, struct gen_launches *l);

#endif
