/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sizes, and the names that the Open Inference Protocol gives them. */
#include <gpuwire/dtype.h>

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [GW_DTYPE_F32] = {"FP32", 4},   [GW_DTYPE_F16] = {"FP16", 2},   [GW_DTYPE_BF16] = {"BF16", 2},
    [GW_DTYPE_F64] = {"FP64", 8},   [GW_DTYPE_BOOL] = {"BOOL", 1},  [GW_DTYPE_U8] = {"UINT8", 1},
    [GW_DTYPE_I8] = {"INT8", 1},    [GW_DTYPE_U16] = {"UINT16", 2}, [GW_DTYPE_I16] = {"INT16", 2},
    [GW_DTYPE_U32] = {"UINT32", 4}, [GW_DTYPE_I32] = {"INT32", 4},  [GW_DTYPE_U64] = {"UINT64", 8},
    [GW_DTYPE_I64] = {"INT64", 8},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

size_t gw_dtype_bytes(uint32_t dtype)
{
    return dtype < TYPES ? types[dtype].bytes : 0;
}

const char *gw_dtype_name(uint32_t dtype)
{
    return gw_dtype_bytes(dtype) ? types[dtype].name : "?";
}

uint32_t gw_dtype_parse(const char *name)
{
    for (uint32_t i = 1; i < TYPES; i++)
        if (!strcmp(types[i].name, name)) return i;
    return 0;
}
