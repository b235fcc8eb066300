/* SPDX-License-Identifier: Apache-2.0 */
/* Types and shapes of tensors. */
#ifndef GW_MODEL_GRAPH_SHAPE_H
#define GW_MODEL_GRAPH_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/model.h>

#define GWM_MAX_COUNT (1 << 28) /* elements of one tensor: all index arithmetic of kernels fits in an int */

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

/* Multiplies the dimensions; -1 for a negative one or more than GWM_MAX_COUNT elements. */
int32_t gwm_count(const struct gwm_shape *s);
bool gwm_same_shape(const struct gwm_shape *a, const struct gwm_shape *b);

/* How elements of a model's type lie in memory while a plan computes. */
static inline enum gwm_dtype gwm_computed(uint32_t type)
{
    return type == GW_DTYPE_F64 ? GWM_F64 : type < GW_DTYPE_F64 ? GWM_F32 : GWM_I64;
}

#endif
