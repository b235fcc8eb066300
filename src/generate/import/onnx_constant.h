/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of an ONNX file: initializers, and what Constant nodes hold. */
#ifndef GW_GENERATE_IMPORT_ONNX_CONSTANT_H
#define GW_GENERATE_IMPORT_ONNX_CONSTANT_H

#include "onnx.pb-c.h"
#include "src/generate/import/builder.h"
#include "src/generate/import/maps.h"
#include "src/model/graph/msg.h"

#define GEN_CONSTANT_RANK 4

/* ONNX' numbers of types that have no gw_dtype. */
#define GEN_ONNX_UINT4 21
#define GEN_ONNX_INT4  22

struct gen_constant {
    const char *name;
    int32_t type; /* ONNX' number */
    uint32_t rank;
    uint64_t dim[GEN_CONSTANT_RANK], count, bytes;
    const uint8_t *data; /* `bytes` of them; not aligned */
    bool turned;         /* it stands for its transpose, of two dimensions */
    const float *floats; /* what gen_constant_floats has made */
};

/* Where files of external data are found: each is mapped once. */
struct gen_externals {
    struct gen_maps *maps;
    int dir;    /* the folder; -1: there may be none */
    char *name; /* the latest file; free it at the end */
    const uint8_t *at;
    size_t size;
};

/* The tensor, whose bytes stay where they are: in the message or in a mapped file. 0 or gwm_fail's error. */
int gen_constant_read(const Onnx__TensorProto *t, struct gen_externals *x, const struct gwm_msg *msg,
                      struct gen_constant *out);
/* All elements as floats; NULL: its type is none of float32, float16 and bfloat16, or b->err is set. */
const float *gen_constant_floats(struct gen_constant *c, struct gen_build *b);
/* Integers of type int64 or int32, at most `max`; their number, or -EINVAL. */
int gen_constant_ints(const struct gen_constant *c, int64_t *out, int max);
/* The bytes, aligned to `align`: where the file does not have them so, a copy. NULL: b->err is set. */
const void *gen_constant_aligned(const struct gen_constant *c, struct gen_build *b, size_t align);
/* A matrix with rows of outputs. The constant is [n, k], or [k, n] where `columns`. false: it is no matrix of
 * a float type, or b->err is set. */
bool gen_constant_matrix(const struct gen_constant *c, struct gen_build *b, bool columns,
                         struct gen_weight *out);
/* The format of a type: false, if it is none. */
bool gen_constant_format(int32_t type, enum gen_format *out);

#endif
