/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoder in ONNX, as onnxruntime-genai's builder writes it, node by node. Its tensors have the dimensions
 * batch and sequence first: what is left of them is a value of rows. Nodes that only serve sizes and masks
 * compute what a step tells the network anyway, and make nothing.
 */
#ifndef GW_GENERATE_IMPORT_ONNX_GRAPH_H
#define GW_GENERATE_IMPORT_ONNX_GRAPH_H

#include "src/generate/import/onnx_constant.h"
#include "src/model/import/names.h"

#define GEN_ONNX_MAX_INPUTS 16u

enum gen_onnx_kind {
    GEN_ONNX_CONSTANT,
    GEN_ONNX_ROWS,
    GEN_ONNX_TOKENS,    /* input_ids */
    GEN_ONNX_POSITIONS, /* position_ids */
    GEN_ONNX_RUNTIME,   /* made of the mask and of sizes: the step knows it */
    GEN_ONNX_PAST,      /* keys or values of a layer */
};

/* Rows whose last operator is not written yet: the next one may join it. */
enum gen_onnx_form {
    GEN_ONNX_PLAIN,
    GEN_ONNX_SIGMOID, /* sigmoid(part) */
    GEN_ONNX_ACT,     /* act(part) */
    GEN_ONNX_SCALED,  /* part * number */
    GEN_ONNX_TANH,    /* tanh(part * number) */
};

struct gen_onnx_value {
    enum gen_onnx_kind kind;
    struct gen_part part;
    uint32_t last; /* of its last dimension: part.width, or less where rows are seen as heads */
    enum gen_onnx_form form;
    enum gen_act act;
    float number;
    struct gen_constant constant;
    uint32_t layer; /* of PAST */
    bool values;    /* PAST: of values, not of keys */
};

struct gen_onnx {
    struct gwm_import im; /* the node, the names, the message: what src/model/import asks of a node */
    struct gen_build b;
    struct gen_externals x;
    struct gen_onnx_value *value;
    size_t values, room;
    struct gen_onnx_value *in[GEN_ONNX_MAX_INPUTS]; /* of the node; NULL: left out */
    uint32_t positions;                             /* that all tables know */
    /* The embedding, and the constant that it was made of: the head may be made of the same one. */
    const uint8_t *table_of;
    struct gen_weight table;
};

/* An operator of the table. */
struct gen_onnx_operator {
    const char *name;
    uint32_t min_in, max_in;
    const char *attrs; /* the attributes it knows, each followed by a space */
    int (*import)(struct gen_onnx *o);
};
/* Ended by a NULL name. */
extern const struct gen_onnx_operator gen_onnx_simple[], gen_onnx_products[], gen_onnx_norms[],
    gen_onnx_attends[];

/* Gives a name a value, which is copied. */
int gen_onnx_define(struct gen_onnx *o, const char *name, const struct gen_onnx_value *v);
/* Gives output i of the node a value; nothing, where the node leaves it out. */
int gen_onnx_set(struct gen_onnx *o, uint32_t i, const struct gen_onnx_value *v);
/* The same for rows: all of a program's value. */
int gen_onnx_rows(struct gen_onnx *o, uint32_t i, int32_t value);

/* Input i as rows, all operators written: 0, or an error if it is something else. Seen as heads where `last`
 * is not NULL; else the rows must be whole. */
int gen_onnx_in(struct gen_onnx *o, uint32_t i, struct gen_part *out, uint32_t *last);
/* Input i as a constant; NULL: it is none. */
struct gen_constant *gen_onnx_constant(struct gen_onnx *o, uint32_t i);
/* Input i as one number. */
bool gen_onnx_number(struct gen_onnx *o, uint32_t i, float *out);
bool gen_onnx_is(const struct gen_onnx *o, uint32_t i, enum gen_onnx_kind kind);
/* Input i as `count` floats: of any number of dimensions. Fails with the node's name. */
int gen_onnx_floats(struct gen_onnx *o, uint32_t i, uint32_t count, const float **out);
/* Input i as a vector of a norm. */
int gen_onnx_vector(struct gen_onnx *o, uint32_t i, uint32_t count, struct gen_weight *out);
/* An attribute that must have that value, or not be there. */
int gen_onnx_must(struct gen_onnx *o, const char *name, int64_t value);

#endif
