/* SPDX-License-Identifier: Apache-2.0 */
/* Places intermediate results in an arena: the largest first, each at the lowest free offset. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "src/model/graph/arena.h"

static size_t padded(const struct gwm_span *s)
{
    return (s->bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
}

static int larger_first(const void *pa, const void *pb)
{
    const struct gwm_span *a = *(struct gwm_span *const *)pa, *b = *(struct gwm_span *const *)pb;

    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->first != b->first ? (a->first > b->first ? 1 : -1) : (a > b) - (a < b);
}

static bool arena_meet(const struct gwm_span *a, const struct gwm_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is sorted by offset; finds the lowest gap among those alive together with s. */
static size_t lowest_gap(const struct gwm_span *s, struct gwm_span *const *placed, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (!arena_meet(s, placed[i])) continue;
        if (placed[i]->offset >= at + padded(s)) break;
        size_t end = placed[i]->offset + padded(placed[i]);
        if (end > at) at = end;
    }
    return at;
}

int gwm_arena_plan(struct gwm_span *span, size_t n, size_t most, size_t *total)
{
    struct gwm_span **order = calloc(n + 1, sizeof(*order)), **placed = calloc(n + 1, sizeof(*placed));
    size_t count = 0, done = 0;
    int err = order && placed ? 0 : -ENOMEM;

    *total = 0;
    for (size_t i = 0; i < n && !err; i++) {
        span[i].offset = 0;
        if (!span[i].bytes) continue;
        if (span[i].bytes > most) err = -E2BIG;
        order[count++] = &span[i];
    }
    if (!err) qsort(order, count, sizeof(*order), larger_first);
    for (size_t i = 0; i < count && !err; i++) {
        struct gwm_span *s = order[i];
        size_t k = done++;
        s->offset = lowest_gap(s, placed, k);
        for (; k && placed[k - 1]->offset > s->offset; k--) placed[k] = placed[k - 1];
        placed[k] = s;
        if (s->offset + padded(s) > *total) *total = s->offset + padded(s);
        if (*total > most) err = -E2BIG; /* and so offsets never overflow */
    }
    free(order);
    free(placed);
    return err;
}
