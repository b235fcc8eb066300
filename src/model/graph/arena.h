/* SPDX-License-Identifier: Apache-2.0 */
/* Where each intermediate result lies: two that are needed at the same time never overlap, others may. */
#ifndef GW_MODEL_ARENA_H
#define GW_MODEL_ARENA_H

#include <stddef.h>

#define GWM_ARENA_ALIGN 256
#define GWM_ARENA_MAX   ((size_t)8 << 30) /* what no honest model needs: the limit by default */

struct gwm_span {
    size_t bytes;
    int first, last; /* steps: written first, read last */
    size_t offset;   /* the answer, a multiple of GWM_ARENA_ALIGN */
};

/*
 * Places the spans that have bytes and sets *total to the size of the arena. Largest first, each at the
 * lowest free offset. -ENOMEM, or -E2BIG when the arena would be larger than `most`.
 */
int gwm_arena_plan(struct gwm_span *span, size_t n, size_t most, size_t *total);

#endif
