/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the GPU back-end. gpu.c keeps buffers, launches and memory; form.c says how tensors lie in memory;
 * lower.c, conv.c, product.c and attention.c turn nodes into launches; program.c makes one kernel of these.
 * Where there are several ways to do that, pick.c measures them; cache.c keeps what it found. lib.c, cudnn.c
 * and lt.c know NVIDIA's libraries, time.c CUDA's graphs.
 */
#ifndef GW_MODEL_GPU_H
#define GW_MODEL_GPU_H

#include <gpuwire/exec.h>

#include "src/model/graph/arena.h"
#include "src/model/kernels/kernels.h"
#include "src/model/place.h"
#include "src/model/kernels/program.h"

#define GWM_SYNC_NS 30000000000u /* a model that runs longer than that hangs */

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
    size_t offset;    /* CONST: in the constants */
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
    struct gw_mem const_mem, arena_mem, io_mem; /* io: the inputs and outputs of gwm_gpu_run */
    size_t most;                                /* bytes of device memory */
    size_t const_bytes, arena_bytes, in_at[GW_MODEL_MAX_IO], out_at[GW_MODEL_MAX_IO];
    int node;          /* that is lowered now, or -1 */
    int *uses, *maker; /* per root, as gwm_uses gives them */
    bool *done;        /* per node: another one's launch does its work too */
    bool *put_off;     /* per node: its result is made when somebody wants it */
    int *as;           /* per root GWM_SLOTS: the buffer that holds it in that form, or -1 */
    bool *picture;     /* per root: N H W C may suit it */
    int out[GW_MODEL_MAX_IO];
    bool staged[GW_MODEL_MAX_IO]; /* outputs that are copied at the end */
};

/* ---- gpu.c ---- */

/* A buffer in the arena; or one of constants: data that outlives the plan, or malloc'ed data that is handed
 * over (NULL: no memory). The number, -ENOMEM or -E2BIG. */
int gwm_gpu_scratch(struct gwm_gpu *p, size_t bytes, uint32_t type);
int gwm_gpu_static(struct gwm_gpu *p, const void *data, size_t bytes, uint32_t type);
int gwm_gpu_take(struct gwm_gpu *p, void *data, size_t bytes, uint32_t type);
/* One that stands for an input or output of the model. */
int gwm_gpu_outside(struct gwm_gpu *p, enum gwm_mem mem, int index, uint32_t type);

/* A launch with a copy of its arguments, whose addresses are named next; or a call, which is handed over. */
int gwm_gpu_launch(struct gwm_gpu *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                   const void *args);
int gwm_gpu_call(struct gwm_gpu *p, struct gwm_call *call);

/*
 * The launch made last has buffer `buf` at offset `at` of its arguments: a struct gwm_ref, or a plain address
 * (of a call: number `at`). A plain address cannot be an input or output of the model. Negative buffers are
 * passed on as errors.
 */
int gwm_gpu_ref(struct gwm_gpu *p, size_t at, int buf);
int gwm_gpu_fix(struct gwm_gpu *p, size_t at, int buf);

/* Forgets the launches and buffers made since there were so many of them. */
void gwm_gpu_back(struct gwm_gpu *p, int nlaunch, int nbuf);

/* Where buffers lie in a run: at[buffer]; of the model's inputs and outputs, unless `in` is NULL, in[] and
 * out[]; or what *io says when the kernels run. */
struct gwm_where {
    char *const *at;
    const void *const *in;
    void *const *out;
    const struct gw_plan_io *io;
};

/* Launches from number `first` on: into a stream of the GPU, or (NULL) on the executor. */
int gwm_gpu_enqueue_from(struct gwm_gpu *p, int first, const struct gwm_where *where, void *stream);
/* A launch's arguments with the addresses filled in. Not of a call. */
void gwm_gpu_args(const struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *args);
/* The same on gwm_gpu_run's own tensors. */
int gwm_gpu_enqueue_here(struct gwm_gpu *p, int first, void *stream);

/* ---- program.c ---- */

/* Whether a program of it can be small: 0, or -ENOTSUP with the reason. */
int gwm_program_fits(const struct gwm_graph *g, const struct gwm_msg *msg);
/* Makes p->program of the launches, whose memory is there. -ENOTSUP: of one of them it cannot. */
int gwm_program_make(struct gwm_gpu *p, const struct gwm_msg *msg);
int gwm_program_enqueue(struct gwm_gpu *p, const struct gwm_where *where, void *stream);

/* ---- form.c ---- */

/* A form for a root, without the bits that make no difference to it. */
uint32_t gwm_gpu_form(const struct gwm_gpu *p, int root, uint32_t form);
/* The form that the plan wants results in. */
uint32_t gwm_gpu_wanted(const struct gwm_gpu *p, int root);
/* Which roots are pictures. */
void gwm_gpu_pictures(struct gwm_gpu *p);

/* Where to read a value in a form, to which it is brought first if need be; fixed: at an address that does
 * not change from run to run. */
int gwm_gpu_in(struct gwm_gpu *p, int value, uint32_t form, bool fixed);
/* Where to write a value, which is in that form then; and the form in which an own kernel should write it. */
int gwm_gpu_out(struct gwm_gpu *p, int value, uint32_t form, bool fixed);
uint32_t gwm_gpu_out_form(const struct gwm_gpu *p, int value);
/* Copies `count` elements of a root from one buffer and form to another. */
int gwm_gpu_convert(struct gwm_gpu *p, int root, int from, uint32_t from_form, int to, uint32_t to_form);
/* Makes the buffers of the model's inputs and outputs; brings the outputs to their places, at the end. */
int gwm_gpu_border(struct gwm_gpu *p);
int gwm_gpu_finish(struct gwm_gpu *p);

/* ---- lower.c, move.c, index.c ---- */
int gwm_gpu_node(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_move(struct gwm_gpu *p, const struct gwm_node *n);
int gwm_gpu_concat(struct gwm_gpu *p, const struct gwm_node *n);
/* A move from one buffer to another. Negative buffers are passed on as errors. */
int gwm_gpu_move_one(struct gwm_gpu *p, const struct gwm_move *m, int x, int y);
int gwm_gpu_more(struct gwm_gpu *p, const struct gwm_node *n);

/* A kernel that walks over `count` elements. */
int gwm_gpu_over(struct gwm_gpu *p, const struct gw_kernel *kernel, int32_t count, const void *args);
/* Between the orders N C H W and N H W C: which of the two a move's result has, or 0 for another move. */
enum { GWM_TO_LAST = 1, GWM_TO_FIRST = 2 };
int gwm_gpu_turns(const struct gwm_graph *g, const struct gwm_node *n);

/* What a convolution or product does while it stores. */
struct gwm_store {
    int out; /* the value that is written */
    int add; /* a value added before the activation, or -1 */
    struct gwm_act act;
    int32_t block;                     /* depth-to-space by this much; 1 is none */
    bool block_first;                  /* as in struct gwm_conv_args */
    const struct gwm_product *product; /* products only */
    uint32_t last;                     /* of a product; GWM_LAST: its result and `add` are N H W C */
    const struct gwm_attention *attention;
};

/* ---- strided.c ---- */

/* Matrices in a root's C order: so many, of so many rows and columns; with strides, and a factor. Attention
 * has so many of these again, last. */
struct gwm_strided {
    int root;
    int32_t n[4], stride[4], start;
    float scale;
};

/* What a product reads and writes, and where. */
struct gwm_product {
    struct gwm_strided a, b, y;
};

/* Is it a node whose result others may read where it comes from? */
bool gwm_gpu_put_off(const struct gwm_gpu *p, const struct gwm_node *n);
/* Is it a multiplication of all elements by one number? */
bool gwm_gpu_factor(const struct gwm_node *n);
/* Follows matrices back through such nodes, to where they last fit: NULL, cuBLASLt. */
void gwm_gpu_trace(const struct gwm_gpu *p, struct gwm_strided *s, bool (*fits)(const struct gwm_strided *));
/* Follows a result forward through a move of `count` elements; false when it cannot be written there. */
bool gwm_gpu_trace_out(const struct gwm_node *move, int32_t count, struct gwm_strided *y);

/* An activation over a buffer, in its place. */
int gwm_gpu_activate(struct gwm_gpu *p, const struct gwm_act *act, int buf, int32_t count);

/* ---- conv.c, product.c ---- */
int gwm_gpu_conv(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to);
int gwm_gpu_gemm(struct gwm_gpu *p, const struct gwm_node *n);

/* Blocks for the thin kernel, which takes products of at most so many rows (in a program, of any number). */
#define GWM_THIN_MOST (8 * GWM_THIN_ROWS)
uint32_t gwm_thin_grid(const struct gwm_gemm_args *g);
/* One product, whatever it belongs to. */
int gwm_gpu_gemm_alone(struct gwm_gpu *p, const struct gwm_node *n);

/* ---- attention.c ---- */

/* Is it a part of an attention, whose last product may do its work? Then it is put off. */
bool gwm_gpu_attention_part(const struct gwm_gpu *p, const struct gwm_node *n);
/* The last product of an attention, with all of it; -ENOTSUP: it is none. */
int gwm_gpu_attention(struct gwm_gpu *p, const struct gwm_node *n);

/* Weights and bias of a convolution as constants of that element type: oc × kh × kw × c/group when the
 * channels are last, else as in the file. A bias there is always. */
int gwm_conv_weights(struct gwm_gpu *p, const struct gwm_conv *c, bool last, bool half);
int gwm_conv_bias(struct gwm_gpu *p, const struct gwm_conv *c, bool half);

/* ---- pick.c ---- */

/* Opens what measuring needs: on a GPU only. Without it the first of the ways that works is taken. */
void gwm_gpu_measure(struct gwm_gpu *p);

/* One way to do what a node says. `setting` counts from 0 to settings - 1; -ENOTSUP: not for this node. */
struct gwm_way {
    const char *name;
    int settings;
    int (*lower)(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
};

/* Lowers a node in the fastest of the ways, or in the first that works where nothing is measured. `what`
 * describes all that the times depend on. */
int gwm_gpu_pick(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, const char *what,
                 const struct gwm_way *ways);

/* ---- cache.c: what was chosen before, in a file per GPU and versions ---- */
struct gwm_cache *gwm_cache_open(const char *machine);
/* What was kept under that name ("way setting"), or NULL; and to keep it. */
const char *gwm_cache_get(const struct gwm_cache *c, const char *what);
void gwm_cache_put(struct gwm_cache *c, const char *what, const char *choice);
/* Writes the file if anything is new. NULL is allowed. */
void gwm_cache_close(struct gwm_cache *c);

/* ---- time.c ---- */
struct gwm_timer *gwm_timer_open(struct gw_exec *exec, size_t most);
void gwm_timer_close(struct gwm_timer *t);
/* Names the machine and its driver. */
void gwm_timer_machine(const struct gwm_timer *t, char *text, size_t size);
/* Microseconds that the launches from `first` on take; negative when they fail, or cannot be launched by the
 * device. */
float gwm_timer_nodes(struct gwm_timer *t, struct gwm_gpu *p, int first);
float gwm_timer_plan(struct gwm_timer *t, struct gwm_gpu *p);
/* The same of one launch of a plan that is made. */
float gwm_timer_one(struct gwm_timer *t, struct gwm_gpu *p, int number);
/* Why the last call of gwm_timer_plan failed. */
const char *gwm_timer_why(const struct gwm_timer *t);

/* ---- lib.c ---- */
struct gwm_lib *gwm_lib_open(void);
void gwm_lib_close(struct gwm_lib *l);
void gwm_lib_versions(const struct gwm_lib *l, char *text, size_t size);
#define GWM_LIB_SETTINGS 8
int gwm_lib_cudnn(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
int gwm_lib_pointwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);
int gwm_lib_gemm(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting);

#endif
