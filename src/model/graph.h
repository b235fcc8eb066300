/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network between importer and back-ends: values (tensors) and nodes (operators), nodes in an order in
 * which each one's inputs exist. Few, general operators: the importer turns the file's into these.
 *
 * Reshapes are no nodes: the new value is a *view*, it shares the storage of its `root`. Whatever asks "who
 * uses this memory" therefore asks about roots.
 */
#ifndef GW_MODEL_GRAPH_H
#define GW_MODEL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuwire/model.h>

#define GWM_MAX_COUNT (1 << 28) /* elements of one tensor: all index arithmetic of kernels fits in an int */
#define GWM_MAX_NODES (1 << 16)
#define GWM_MAX_SIDE  (1 << 20) /* a kernel's side, stride, pad or dilation */

/* Where an error line goes. */
struct gwm_msg {
    char *text;
    size_t len;
    const char *file;
};

/* Writes "FILE: …", control characters and non-ASCII bytes replaced, and returns `code`. */
int gwm_fail(const struct gwm_msg *msg, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

enum gwm_dtype {
    GWM_F32 = 1,
    GWM_I64 = 2, /* only as constants: shapes, axes, pads */
};

struct gwm_shape {
    uint32_t rank;
    int32_t d[GW_MODEL_MAX_RANK];
};

/* What follows an operator's result element by element. */
enum gwm_act_kind {
    GWM_ACT_NONE,
    GWM_ACT_RELU,
    GWM_ACT_LEAKY, /* x < 0 ? a x : x */
    GWM_ACT_CLIP,  /* min(max(x, a), b) */
    GWM_ACT_SIGMOID,
    GWM_ACT_TANH,
};

struct gwm_act {
    int32_t kind;
    float a, b;
};

/* Copies a box of elements between two strided layouts: transposes, depth-to-space, pieces of a
 * concatenation. */
struct gwm_move {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];                        /* of the box, in the destination's order */
    int32_t from[GW_MODEL_MAX_RANK], to[GW_MODEL_MAX_RANK]; /* strides in elements */
    int32_t offset;                                         /* of the box in the destination */
};

/* Element by element over two inputs, each with stride 0 where it is repeated. */
struct gwm_broadcast {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];
    int32_t a[GW_MODEL_MAX_RANK], b[GW_MODEL_MAX_RANK];
};

/* A window that slides over height and width (1-D: height 1). */
struct gwm_window {
    int32_t n, c, h, w, oh, ow;       /* batch, input channels, sizes in and out */
    int32_t kh, kw, sh, sw, dh, dw;   /* kernel, stride, dilation */
    int32_t top, left, bottom, right; /* padding */
};

struct gwm_conv {
    struct gwm_window win;
    int32_t oc, group;
    const float *weight; /* oc × c/group × kh × kw */
    const float *bias;   /* oc, or NULL */
};

struct gwm_pool {
    struct gwm_window win;
    bool average, count_pads;
};

struct gwm_gemm { /* y[m][n] = Σ a[m][k] b[k][n] + bias[n] */
    int32_t m, n, k;
    bool ta, tb;       /* a is stored k × m; b is stored n × k */
    const float *bias; /* n, or NULL */
};

struct gwm_softmax {
    int32_t outer, n, inner;
};

enum gwm_op {
    GWM_CONV,
    GWM_POOL,
    GWM_GEMM,
    GWM_UNARY, /* act only */
    GWM_BINARY,
    GWM_SOFTMAX,
    GWM_MOVE,   /* one input, every output element written */
    GWM_CONCAT, /* one move per input */
    GWM_PAD,    /* fills the output with `pad_value`, then moves */
};

enum gwm_binary { GWM_ADD, GWM_SUB, GWM_MUL, GWM_DIV };

struct gwm_node {
    enum gwm_op op;
    const char *name, *type; /* of the file's node, for messages */
    uint32_t nin;
    int *in; /* values */
    int out;
    bool dead;
    struct gwm_act act; /* applied last; CONV, GEMM, BINARY and UNARY only */
    union {
        struct gwm_conv conv;
        struct gwm_pool pool;
        struct gwm_gemm gemm;
        struct gwm_softmax softmax;
        struct {
            enum gwm_binary kind;
            struct gwm_broadcast bc;
        } binary;
        struct {
            struct gwm_move *move; /* nin of them */
            float pad_value;
        } mv;
    };
};

struct gwm_value {
    const char *name;
    enum gwm_dtype dtype;
    struct gwm_shape shape;
    int32_t count;    /* elements */
    int root;         /* whose storage it is: its own number, or another value's */
    int input;        /* roots: number of the model's input, or -1 */
    int output;       /* roots: number of the model's output, or -1 */
    const void *data; /* constants */
};

struct gwm_graph {
    struct gwm_value *value;
    struct gwm_node *node;
    int nvalue, nnode, cap_value, cap_node;
    int input[GW_MODEL_MAX_IO], output[GW_MODEL_MAX_IO]; /* values */
    uint32_t ninput, noutput;
    struct gw_tensor_info info[2][GW_MODEL_MAX_IO]; /* [1] are the outputs */
    size_t budget;                                  /* bytes that may still be allocated */
    void *blocks;                                   /* everything the graph points to */
};

struct gwm_graph *gwm_graph_new(size_t budget);
void gwm_graph_free(struct gwm_graph *g);

/* Zeroed memory that lives as long as the graph; NULL when the budget or the memory is used up. */
void *gwm_alloc(struct gwm_graph *g, size_t bytes);
char *gwm_strdup(struct gwm_graph *g, const char *s);

/* Multiplies the dimensions; -1 for a negative one or more than GWM_MAX_COUNT elements. */
int32_t gwm_count(const struct gwm_shape *s);
bool gwm_same_shape(const struct gwm_shape *a, const struct gwm_shape *b);

/* A new value or node; its number, or a negative errno value. */
int gwm_value_new(struct gwm_graph *g, const char *name, enum gwm_dtype dtype, const struct gwm_shape *shape);
int gwm_view_new(struct gwm_graph *g, const char *name, int of, const struct gwm_shape *shape);
int gwm_node_new(struct gwm_graph *g, enum gwm_op op, const int *in, uint32_t nin, int out);

/* uses[v]: how many node inputs and model outputs lie in root v's storage. maker[v]: the node that writes
 * root v, or -1. */
void gwm_uses(const struct gwm_graph *g, int *uses, int *maker);

static inline bool gwm_is_const(const struct gwm_graph *g, int v)
{
    return g->value[g->value[v].root].data != NULL;
}

static inline size_t gwm_bytes(const struct gwm_value *v)
{
    return (size_t)v->count * (v->dtype == GWM_I64 ? 8 : 4);
}

/* move.c: strides for common layouts. Dimensions that stay neighbours are merged. */
void gwm_move_permute(struct gwm_move *m, const int32_t *dims, uint32_t rank, const int32_t *perm);
void gwm_move_place(struct gwm_move *m, const struct gwm_shape *box, const struct gwm_shape *dst,
                    const int32_t *at);
void gwm_broadcast_dims(struct gwm_broadcast *bc, const int32_t *dims, const int32_t *a, const int32_t *b,
                        uint32_t rank);
int gwm_broadcast(struct gwm_broadcast *bc, struct gwm_shape *out, const struct gwm_shape *a,
                  const struct gwm_shape *b);

/* fuse.c: makes the graph smaller; needs no message but for -ENOMEM. */
int gwm_optimise(struct gwm_graph *g);

/* ref.c: plain loops, used to fold constants and by the CPU back-end. */
void gwm_ref_unary(const struct gwm_act *act, const float *x, float *y, int32_t n);
void gwm_ref_binary(const struct gwm_node *n, const float *a, const float *b, float *y);
void gwm_ref_move(const struct gwm_move *m, const float *x, float *y);
void gwm_ref_softmax(const struct gwm_softmax *s, const float *x, float *y);
void gwm_ref_pool(const struct gwm_pool *p, const float *x, float *y);
/* Evaluates a node of the kinds above (all but CONV, POOL and GEMM); false when it is another. */
bool gwm_ref_eval(const struct gwm_node *n, const struct gwm_graph *g, const float *const *in, float *out);

/* import.c */
int gwm_import(const void *bytes, size_t len, struct gwm_graph **graph, const struct gwm_msg *msg);

#endif
