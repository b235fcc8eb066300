/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the numbers of a request from its id, and compares an answer with them. */
#include "src/cli/load/data.h"

#include <string.h>

#include <gpuwire/dtype.h>

#define BLOCK 256 /* elements that are made at a time to be compared */

static uint64_t load_data_begin(uint64_t id, uint32_t part)
{
    return (id * 64 + part) * 0x9e3779b97f4a7c15u + 1;
}

/* One loop for each size, so that a request of many numbers is made fast. */
#define FILL(type, value)                                                                                    \
    do {                                                                                                     \
        type *x = to;                                                                                        \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            state = state * 6364136223846793005u + 1442695040888963407u;                                     \
            uint32_t r = (uint32_t)(state >> 40);                                                            \
            x[i] = (type)(value);                                                                            \
        }                                                                                                    \
    } while (0)

static uint64_t load_data_fill(uint32_t dtype, void *to, uint64_t count, uint64_t state)
{
    switch (dtype) {
    case GW_DTYPE_F32: FILL(float, (float)r / (float)(1u << 24)); break;
    case GW_DTYPE_F64: FILL(double, (double)r / (double)(1u << 24)); break;
    case GW_DTYPE_F16: FILL(uint16_t, 0x3c00 | r >> 14); break; /* 1 to 2: all have the same exponent */
    case GW_DTYPE_BF16: FILL(uint16_t, 0x3f80 | r >> 17); break;
    case GW_DTYPE_BOOL: FILL(uint8_t, r >> 23); break;
    case GW_DTYPE_U8:
    case GW_DTYPE_I8: FILL(uint8_t, r >> 17); break;
    case GW_DTYPE_U16:
    case GW_DTYPE_I16: FILL(uint16_t, r >> 17); break;
    case GW_DTYPE_U32:
    case GW_DTYPE_I32: FILL(uint32_t, r >> 17); break;
    default: FILL(uint64_t, r >> 17);
    }
    return state;
}

void gw_data_fill(uint32_t dtype, void *to, uint64_t count, uint64_t id, uint32_t part)
{
    load_data_fill(dtype, to, count, load_data_begin(id, part));
}

int gw_data_is(uint32_t dtype, const void *at, uint64_t count, uint64_t id, uint32_t part)
{
    const uint8_t *left = at;
    uint64_t state = load_data_begin(id, part), want[BLOCK];
    while (count) {
        uint64_t n = count < BLOCK ? count : BLOCK;
        state = load_data_fill(dtype, want, n, state);
        if (memcmp(left, want, n * gw_dtype_bytes(dtype))) return 0;
        left += n * gw_dtype_bytes(dtype);
        count -= n;
    }
    return 1;
}
