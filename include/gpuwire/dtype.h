/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of tensors, by the Open Inference Protocol's names. For models, servers and clients. */
#ifndef GPUWIRE_DTYPE_H
#define GPUWIRE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are little-endian, floats are IEEE 754's. */
enum gw_dtype {
    GW_DTYPE_F32 = 1,
    GW_DTYPE_F16 = 2,
    GW_DTYPE_BF16 = 3, /* the upper half of an F32 */
    GW_DTYPE_F64 = 4,
    GW_DTYPE_BOOL = 5, /* one byte, 0 or 1 */
    GW_DTYPE_U8 = 6,
    GW_DTYPE_I8 = 7,
    GW_DTYPE_U16 = 8,
    GW_DTYPE_I16 = 9,
    GW_DTYPE_U32 = 10,
    GW_DTYPE_I32 = 11,
    GW_DTYPE_U64 = 12,
    GW_DTYPE_I64 = 13,
};

/* Bytes of one element; 0: there is no such type. Any thread. */
GW_API size_t gw_dtype_bytes(uint32_t dtype);
/* The Open Inference Protocol's name ("FP32", "INT64"); "?": there is no such type. Any thread. */
GW_API const char *gw_dtype_name(uint32_t dtype);
/* The type of that name; 0: there is none. Any thread. */
GW_API uint32_t gw_dtype_parse(const char *name);

#ifdef __cplusplus
}
#endif

#endif
