/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of tensors: how many elements they have, and whether two are the same. */
#include <string.h>

#include "src/model/graph/shape.h"

int32_t gwm_count(const struct gwm_shape *s)
{
    int64_t n = 1;
    bool none = false;

    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->d[i] < 0) return -1;
        if (s->d[i]) n *= s->d[i]; /* < 2^28 × 2^31 */
        none = none || !s->d[i];
        if (n > GWM_MAX_COUNT) return -1; /* beside a 0 too: so every product of sides fits */
    }
    return none ? 0 : (int32_t)n;
}

bool gwm_same_shape(const struct gwm_shape *a, const struct gwm_shape *b)
{
    return a->rank == b->rank && !memcmp(a->d, b->d, a->rank * sizeof(a->d[0]));
}
