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

#include "src/model/graph/shape.h"
#include "src/model/graph/work.h"

#define GWM_MAX_NODES (1 << 16)
#define GWM_MAX_SIDE  (1 << 20) /* a kernel's side, stride, pad or dilation */

enum gwm_op {
    GWM_CONV,
    GWM_POOL,
    GWM_GEMM,
    GWM_UNARY, /* act only */
    GWM_BINARY,
    GWM_SOFTMAX,
    GWM_MOVE,   /* one input, every output element written */
    GWM_CONCAT, /* one move per input */
    GWM_PAD,    /* fills the output with one number, then moves */
    GWM_DECONV, /* transposed convolution: `conv` with weights c × oc/group × kh × kw; win is the forward
                   one's, so that h × w is what goes in */
    GWM_REDUCE,
    GWM_NORM,
    GWM_GATHER,
    GWM_INTERP,
    GWM_SELECT, /* the condition is I64 */
    GWM_CUMSUM,
    GWM_CONVERT, /* from the input's dtype to the output's, with the values that type `to` can hold */
};

struct gwm_node {
    enum gwm_op op;
    const char *name, *type; /* of the file's node, for messages */
    uint32_t nin;
    int *in; /* values */
    int out;
    bool dead;
    struct gwm_act act; /* applied last; CONV, DECONV, GEMM, BINARY, NORM, UNARY only; on I64 UNARY only */
    union {
        struct gwm_conv conv;
        struct gwm_pool pool;
        struct gwm_gemm gemm;
        struct gwm_softmax softmax;
        struct gwm_reduce reduce;
        struct gwm_norm norm;
        struct gwm_gather gather;
        struct gwm_interp interp;
        struct gwm_cumsum cumsum;
        struct gwm_select select;
        struct {
            uint32_t to; /* enum gw_dtype */
        } convert;
        struct {
            enum gwm_binary kind;
            struct gwm_broadcast bc;
        } binary;
        struct {
            struct gwm_move *move; /* nin of them */
            float pad_float;       /* what lies between, where the output holds floats */
            int64_t pad_int;       /* where it holds integers; the bits where it holds F64 */
        } mv;
    };
};

struct gwm_value {
    const char *name;
    uint32_t dtype; /* in memory: enum gwm_dtype, or at the border another one of enum gw_dtype */
    uint32_t type;  /* what the file says: enum gw_dtype */
    struct gwm_shape shape;
    int32_t count;    /* elements */
    int root;         /* whose storage it is: its own number, or another value's */
    int input;        /* roots: number of the model's input, or -1 */
    int output;       /* roots: number of the model's output, or -1 */
    const void *data; /* constants */
};

struct gwm_source;

struct gwm_graph {
    struct gwm_value *value;
    struct gwm_node *node;
    int nvalue, nnode, cap_value, cap_node;
    int input[GW_MODEL_MAX_IO], output[GW_MODEL_MAX_IO]; /* values */
    uint32_t ninput, noutput;
    struct gw_tensor_info info[2][GW_MODEL_MAX_IO]; /* [1] are the outputs */
    size_t budget;                                  /* bytes that may still be allocated */
    int64_t work;                                   /* elements that folding may still compute */
    void *blocks;                                   /* everything the graph points to, but for: */
    struct gwm_source *source;                      /* the file; large constants lie there */
    void (*source_free)(struct gwm_source *s);      /* of the importer, which alone knows what it is */
    void (*source_keep)(struct gwm_source *s, const void *const *at, size_t n); /* as gwm_graph_keep */
    bool slim;     /* constants have gone: no further plan can be made */
    uint32_t rows; /* what the open batch dimension was taken as */
};

struct gwm_graph *gwm_graph_new(size_t budget);
void gwm_graph_free(struct gwm_graph *g);

/* Zeroed memory that lives as long as the graph; NULL when the budget or the memory is used up. */
void *gwm_alloc(struct gwm_graph *g, size_t bytes);
char *gwm_strdup(struct gwm_graph *g, const char *s);
/* Frees such memory, of some size, unless one of n addresses, which ascend, lies in it. */
void gwm_graph_keep(struct gwm_graph *g, const void *const *at, size_t n);
/* Does one of them lie in a range? */
bool gwm_graph_points(const void *const *at, size_t n, const void *first, size_t bytes);
/* What takes less is not worth freeing by itself. */
#define GWM_LARGE 4096

/* A new value or node; its number, or a negative errno value. */
int gwm_value_new(struct gwm_graph *g, const char *name, uint32_t dtype, const struct gwm_shape *shape);
int gwm_view_new(struct gwm_graph *g, const char *name, int of, const struct gwm_shape *shape);
int gwm_node_new(struct gwm_graph *g, enum gwm_op op, const int *in, uint32_t nin, int out);

/* uses[v]: how many node inputs and model outputs lie in root v's storage. maker[v]: the node that writes
 * root v, or -1. */
void gwm_uses(const struct gwm_graph *g, int *uses, int *maker);
/* With these: the one node after number `after` that reads a root, when there is only one; or -1. */
int gwm_sole_reader(const struct gwm_graph *g, const int *uses, int root, int after);

/* The type of the elements in memory: uint64 is held as int64. */
static inline uint32_t gwm_type_held(const struct gwm_value *v)
{
    return v->type == GW_DTYPE_U64 ? v->type : v->dtype;
}

static inline size_t gwm_bytes(const struct gwm_value *v)
{
    return (size_t)v->count * gw_dtype_bytes(v->dtype);
}

#endif
