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
#include <sys/types.h>

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

/*
 * How elements lie in memory while a plan computes: F64 as it is, all other floats as F32, all integers and
 * booleans as I64.
 * Other types of enum gw_dtype stand only at the model's border, on one side of a GWM_CONVERT.
 */
enum gwm_dtype {
    GWM_F32 = GW_DTYPE_F32,
    GWM_F64 = GW_DTYPE_F64,
    GWM_I64 = GW_DTYPE_I64,
};

struct gwm_shape {
    uint32_t rank;
    int32_t d[GW_MODEL_MAX_RANK];
};

/* A function of one element. On I64: NONE, RELU, ABS, NEG, SIGN, NOT. */
enum gwm_act_kind {
    GWM_ACT_NONE,
    GWM_ACT_RELU,
    GWM_ACT_LEAKY, /* x < 0 ? a x : x */
    GWM_ACT_CLIP,  /* min(max(x, a), b) */
    GWM_ACT_SIGMOID,
    GWM_ACT_TANH,
    GWM_ACT_AFFINE,   /* a x + b */
    GWM_ACT_HSIGMOID, /* min(max(a x + b, 0), 1) */
    GWM_ACT_HSWISH,   /* x min(max(x / 6 + 1/2, 0), 1) */
    GWM_ACT_SILU,     /* x sigmoid(a x) */
    GWM_ACT_GELU,     /* with erf */
    GWM_ACT_GELU_TANH,
    GWM_ACT_ERF,
    GWM_ACT_EXP,
    GWM_ACT_LOG,
    GWM_ACT_SQRT,
    GWM_ACT_RECIPROCAL,
    GWM_ACT_POW, /* x to the a */
    GWM_ACT_ABS,
    GWM_ACT_NEG,
    GWM_ACT_SIGN,
    GWM_ACT_FLOOR,
    GWM_ACT_CEIL,
    GWM_ACT_ROUND, /* halves to even */
    GWM_ACT_SIN,
    GWM_ACT_COS,
    GWM_ACT_ELU,  /* x < 0 ? a (e^x - 1) : x */
    GWM_ACT_SELU, /* b times ELU */
    GWM_ACT_CELU, /* x < 0 ? a (e^(x/a) - 1) : x */
    GWM_ACT_SOFTPLUS,
    GWM_ACT_SOFTSIGN,
    GWM_ACT_MISH,
    GWM_ACT_NOT, /* I64 only */
};

struct gwm_act {
    int32_t kind;
    float a, b;
};

/* Copies a box of elements between two strided layouts: transposes, slices, pieces of a concatenation. A
 * stride of the source may be 0 (repeats) or negative (backwards). */
struct gwm_move {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];                        /* of the box, in the destination's order */
    int32_t from[GW_MODEL_MAX_RANK], to[GW_MODEL_MAX_RANK]; /* strides in elements */
    int32_t offset;                                         /* of the box in the destination */
    int32_t start;                                          /* of the box in the source */
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

struct gwm_gemm { /* y[m][n] = alpha Σ a[m][k] b[k][n] + bias[n] */
    int32_t m, n, k;
    bool ta, tb;       /* a is stored k × m; b is stored n × k */
    const float *bias; /* n, or NULL */
    float alpha;
    /* So many products, whose results lie one after the other. Batch says where each one's matrices are: its
     * strides count elements of a and b. */
    int32_t products;
    struct gwm_broadcast batch;
};

struct gwm_softmax {
    int32_t outer, n, inner;
    bool log; /* the logarithm of it */
};

enum gwm_reduce_kind {
    GWM_REDUCE_SUM,
    GWM_REDUCE_MEAN,
    GWM_REDUCE_MAX,
    GWM_REDUCE_MIN,
    GWM_REDUCE_PROD,
    GWM_REDUCE_L1,
    GWM_REDUCE_L2,
    GWM_REDUCE_SUM_SQUARE,
    GWM_REDUCE_LOG_SUM_EXP,
    GWM_REDUCE_ARGMAX, /* the result is I64 */
    GWM_REDUCE_ARGMIN,
};

struct gwm_reduce { /* outer × n × inner becomes outer × inner */
    enum gwm_reduce_kind kind;
    int32_t outer, n, inner;
    bool last; /* ARGMAX, ARGMIN: of equal elements the last one */
};

/* y = (x - mean) / √(variance + epsilon) scale[c] + bias[c], with statistics over each run of n elements (the
 * input is `outer` such runs). Element i of the tensor has c = i / inner % channels. Inputs: x, scale,
 * bias. */
struct gwm_norm {
    int32_t outer, n, inner, channels;
    float epsilon;
    bool rms; /* no mean: x / √(mean of squares + epsilon) */
};

/* outer × n × inner becomes outer × count × inner: element [o][k][i] is [o][index[k]][i]. Negative indices
 * count from the end; others outside are taken as the nearest inside. Inputs: data, indices (I64). */
struct gwm_gather {
    int32_t outer, n, inner, count;
};

/* outer × n × inner becomes outer × count × inner: element [o][k][i] is the sum over t of weight[k][t] times
 * [o][index[k][t]][i]. An index of -1 adds 0. For Resize, and for padding that mirrors. */
struct gwm_interp {
    int32_t outer, n, inner, count, taps;
    const int32_t *index; /* count × taps */
    const float *weight;  /* count × taps */
};

/* outer × n × inner: sums of all elements so far along n. */
struct gwm_cumsum {
    int32_t outer, n, inner;
    bool exclusive, reverse;
};

/* Element by element over three inputs (condition, then, else), with stride 0 where one is repeated. */
struct gwm_select {
    int32_t rank;
    int32_t dims[GW_MODEL_MAX_RANK];
    int32_t stride[3][GW_MODEL_MAX_RANK];
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

/* Comparisons and the logical ones give I64, 0 or 1. */
enum gwm_binary {
    GWM_ADD,
    GWM_SUB,
    GWM_MUL,
    GWM_DIV,
    GWM_POW,
    GWM_MIN,
    GWM_MAX,
    GWM_MOD,   /* the sign is the divisor's */
    GWM_FMOD,  /* the sign is the dividend's */
    GWM_PRELU, /* a < 0 ? a b : a */
    GWM_EQUAL,
    GWM_LESS,
    GWM_LESS_EQUAL,
    GWM_GREATER,
    GWM_GREATER_EQUAL,
    GWM_AND, /* these three on I64 only */
    GWM_OR,
    GWM_XOR,
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
    uint32_t rows;                                  /* what the open batch dimension was taken as */
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
int gwm_value_new(struct gwm_graph *g, const char *name, uint32_t dtype, const struct gwm_shape *shape);
int gwm_view_new(struct gwm_graph *g, const char *name, int of, const struct gwm_shape *shape);
int gwm_node_new(struct gwm_graph *g, enum gwm_op op, const int *in, uint32_t nin, int out);

/* uses[v]: how many node inputs and model outputs lie in root v's storage. maker[v]: the node that writes
 * root v, or -1. */
void gwm_uses(const struct gwm_graph *g, int *uses, int *maker);
/* With these: the one node behind number `after` that reads a root, when there is only one; or -1. */
int gwm_sole_reader(const struct gwm_graph *g, const int *uses, int root, int after);

/* How elements of a model's type lie in memory while a plan computes. */
static inline enum gwm_dtype gwm_computed(uint32_t type)
{
    return type == GW_DTYPE_F64 ? GWM_F64 : type < GW_DTYPE_F64 ? GWM_F32 : GWM_I64;
}

/* What the elements in memory mean: uint64 is held as int64. */
static inline uint32_t gwm_type_held(const struct gwm_value *v)
{
    return v->type == GW_DTYPE_U64 ? v->type : v->dtype;
}

static inline size_t gwm_bytes(const struct gwm_value *v)
{
    return (size_t)v->count * gw_dtype_bytes(v->dtype);
}

/* move.c: strides for common layouts. Dimensions that stay neighbours are merged. */
void gwm_move_permute(struct gwm_move *m, const int32_t *dims, uint32_t rank, const int32_t *perm);
void gwm_move_place(struct gwm_move *m, const struct gwm_shape *box, const struct gwm_shape *dst,
                    const int32_t *at);
/* Does a move write the whole of a result with `count` elements, in order? */
bool gwm_move_dense(const struct gwm_move *m, int32_t count);
/* `first` writes all of a tensor in order, and `then` reads it: `first` becomes a move that does what both
 * do. False, and nothing changed, where that has no strides. */
bool gwm_move_join(struct gwm_move *first, const struct gwm_move *then);
void gwm_broadcast_dims(struct gwm_broadcast *bc, const int32_t *dims, const int32_t *a, const int32_t *b,
                        uint32_t rank);
/* Every step[i]-th element of each dimension, from at[i] on, into a dense box. A step of 0 repeats. */
void gwm_move_slice(struct gwm_move *m, const struct gwm_shape *src, const struct gwm_shape *box,
                    const int32_t *at, const int32_t *step);
int gwm_broadcast(struct gwm_broadcast *bc, struct gwm_shape *out, const struct gwm_shape *a,
                  const struct gwm_shape *b);
int gwm_select_shape(struct gwm_select *s, struct gwm_shape *out, const struct gwm_shape *const in[3]);

/* fuse.c: makes the graph smaller; needs no message but for -ENOMEM. */
int gwm_optimise(struct gwm_graph *g);

/* rows.c: moves of whole rows go past products, and moves that follow each other become one. Keeps uses and
 * maker true. Joined nodes are dead. */
void gwm_move_rows(struct gwm_graph *g, int *uses, int *maker);
/* siblings.c: products of one matrix with several constants become one. Keeps uses and maker true. */
void gwm_join_siblings(struct gwm_graph *g, int *uses, int *maker);

/* ref.c, ref_*.c: plain loops for every node, used to fold constants and by the CPU back-end. */
void gwm_ref_eval(const struct gwm_node *n, const struct gwm_graph *g, const void *const *in, void *out);
void gwm_ref_act(const struct gwm_act *act, const float *x, float *y, int32_t n);
void gwm_ref_move(const struct gwm_move *m, size_t width, const void *x,
                  void *y); /* width: bytes of an element */
void gwm_ref_softmax(const struct gwm_softmax *s, const float *x, float *y);
void gwm_ref_reduce(const struct gwm_reduce *r, uint32_t dtype, const void *x, void *y);
void gwm_ref_norm(const struct gwm_norm *s, const float *x, const float *scale, const float *bias, float *y);
void gwm_ref_cumsum(const struct gwm_cumsum *s, uint32_t dtype, const void *x, void *y);
void gwm_ref_pool(const struct gwm_pool *p, const float *x, float *y);
void gwm_ref_conv(const struct gwm_conv *c, const float *x, float *y);
void gwm_ref_deconv(const struct gwm_conv *c, const float *x, float *y);
void gwm_ref_gemm(const struct gwm_gemm *q, const float *a, const float *b, float *y);
void gwm_ref_gather(const struct gwm_gather *s, size_t width, const void *x, const int64_t *index, void *y);
void gwm_ref_interp(const struct gwm_interp *s, const float *x, float *y);
void gwm_ref_convert(uint32_t from, uint32_t to, uint32_t into, const void *x, void *y, int32_t count);
/* Steps an odometer over all but the last of `rank` dimensions and keeps an offset for each of n strided
 * views; false after the last row. */
bool gwm_next_row(int32_t rank, const int32_t *dims, int32_t *at, const int32_t *const *stride,
                  int32_t *offset, int n);

/* import.c. The graph keeps what it needs of the bytes. */
int gwm_import(const void *bytes, size_t len, struct gwm_graph **graph, const struct gwm_msg *msg);
/* The same with weights in other files of the folder `dir` (a descriptor, or -1: none may be). With `each`,
 * nodes that fail are told to it, and the rest is looked at all the same; the result is then -ENOTSUP. */
struct gwm_check {
    void (*each)(void *arg, const char *name, const char *type, const char *why);
    void *arg;
};
int gwm_import_file(const void *bytes, size_t len, int dir, const struct gwm_check *check,
                    struct gwm_graph **graph, const struct gwm_msg *msg);
/* The same file with another size of the open batch dimension. */
int gwm_import_rows(const struct gwm_graph *g, uint32_t rows, struct gwm_graph **graph,
                    const struct gwm_msg *msg);
void gwm_source_free(struct gwm_source *s);

/* model.c: a whole file in memory (free it), its size or an error; the folder that it lies in, a descriptor
 * or -1. */
ssize_t gwm_read_file(const char *path, const struct gwm_msg *msg, void **bytes);
int gwm_open_folder(const char *path);

#endif
