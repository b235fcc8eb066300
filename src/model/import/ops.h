/* SPDX-License-Identifier: Apache-2.0 */
/* Between walk.c, which walks the file's nodes, and ops_*.c, which turn each into part of the graph. */
#ifndef GW_MODEL_OPS_H
#define GW_MODEL_OPS_H

#include "onnx.pb-c.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/msg.h"
#include "src/model/import/check.h"

#define GWM_MAX_INPUTS 4096 /* of one node (Concat) */

struct gwm_names;

/* The import under way, and the node at hand. */
struct gwm_import {
    struct gwm_graph *g;
    const struct gwm_msg *msg;
    const struct gwm_check *check; /* or NULL; then msg gets reasons only */
    struct gwm_names *names;
    int64_t opset;
    uint32_t rows; /* the size of an open batch dimension */
    const Onnx__NodeProto *node;
    const int *in; /* values, -1 for an input left out */
    uint32_t nin;
    size_t done; /* outputs of the node that are defined */
    bool failed; /* something was told to `check` */
};

struct gwm_operator {
    const char *name;
    uint32_t min_in, max_in;
    int takes; /* what its first input may be: false, floats that are computed as float32; true, anything */
    const char *attrs; /* the attributes it knows, each followed by a space */
    int (*import)(struct gwm_import *im);
};
#define GWM_REALS 2 /* or floats, float64 among them */

/* Ended by a NULL name. */
extern const struct gwm_operator gwm_ops_window[], gwm_ops_elementwise[], gwm_ops_product[], gwm_ops_reduce[],
    gwm_ops_shape[], gwm_ops_move[], gwm_ops_index[], gwm_ops_resize[], gwm_ops_scatter[];

/* "FILE: node 'NAME' (TYPE): …" */
int gwm_op_fail(const struct gwm_import *im, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Attributes of the node at hand. 1 when it is there, 0 when not (*out is untouched), negative when it is of
 * another type. gwm_attr_ints returns the count or -ENOENT; a list longer than max is an error.
 */
int gwm_attr_int(const struct gwm_import *im, const char *name, int64_t *out);
int gwm_attr_float(const struct gwm_import *im, const char *name, float *out);
int gwm_attr_string(const struct gwm_import *im, const char *name, char *out, size_t size);
int gwm_attr_ints(const struct gwm_import *im, const char *name, int64_t *out, int max);
const Onnx__AttributeProto *gwm_attr(const struct gwm_import *im, const char *name);

/* Input i of the node at hand, NULL when left out. The pointer is good until a value is made. */
const struct gwm_value *gwm_in(const struct gwm_import *im, uint32_t i);

/* Input i as integer constants; their count, -ENOENT when left out, or another error. */
int gwm_in_ints(const struct gwm_import *im, uint32_t i, int64_t *out, int max);

/* Input i as float constants of `count` elements; NULL when it is not that. */
const float *gwm_in_floats(const struct gwm_import *im, uint32_t i, int32_t count);

/* An axis in [-rank, rank) made positive, or an error. */
int gwm_axis(const struct gwm_import *im, int64_t axis, uint32_t rank);

/* A new node and the value it makes, of the type of its first input; the node's number. An empty name is an
 * intermediate value. */
int gwm_emit(struct gwm_import *im, enum gwm_op op, const int *in, uint32_t nin, const struct gwm_shape *out,
             const char *name);
/* Gives the value that a node makes another type, before anything reads it; the node, or the error that came
 * in its place. */
int gwm_typed(struct gwm_import *im, int node, uint32_t type);
/* To be called when the node is complete: evaluates it if all its inputs are constants. Returns its value. */
int gwm_settle(struct gwm_import *im, int node);
/* A constant; data is copied when not NULL, else *room is where to write it. */
int gwm_const(struct gwm_import *im, uint32_t dtype, const struct gwm_shape *shape, const void *data,
              void **room);
/* Another shape for the same elements. */
int gwm_reshape(struct gwm_import *im, int of, const struct gwm_shape *shape);

/* Says that the node's first output, or its i-th, is this value (or that an error happened: negative values
 * are passed on). */
int gwm_result(struct gwm_import *im, int value);
int gwm_result_at(struct gwm_import *im, size_t i, int value);

/* ops_elementwise.c, for operators that are made of several nodes; `a` and `b` are values. The new value. */
int gwm_emit_unary(struct gwm_import *im, struct gwm_act act, int x, const char *name);
int gwm_emit_binary(struct gwm_import *im, enum gwm_binary kind, int a, int b, const char *name);
/* Integers are computed with 64 bits. Numbers of narrower types are brought back into what their type holds.
 */
bool gwm_is_narrow(uint32_t type);
int gwm_emit_wrapped(struct gwm_import *im, int x, const char *name);
/* The same elements as a type; a view where nothing changes. */
int gwm_emit_convert(struct gwm_import *im, int x, uint32_t type, const char *name);
/* ops_move.c: x with its axes permuted. */
int gwm_emit_transpose(struct gwm_import *im, int x, const int32_t *perm, const char *name);

#endif
