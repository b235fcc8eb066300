/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: moments, the earliest first; of equal ones the first that was put in. The caller gives the
 * memory. */
#ifndef GW_FLEET_HEAP_H
#define GW_FLEET_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct fleet_moment {
    int64_t at_ns;
    uint32_t order, kind, a, b;
};

struct fleet_heap {
    struct fleet_moment *m;
    uint32_t n, max, order;
};

static inline bool fleet_before(const struct fleet_moment *a, const struct fleet_moment *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : (int32_t)(a->order - b->order) < 0;
}

/* The heap has room: h->n < h->max. */
static inline void fleet_heap_push(struct fleet_heap *h, struct fleet_moment m)
{
    m.order = h->order++;
    uint32_t i = h->n++;
    for (; i && fleet_before(&m, &h->m[(i - 1) / 4]); i = (i - 1) / 4) h->m[i] = h->m[(i - 1) / 4];
    h->m[i] = m;
}

/* The heap is not empty. */
static inline struct fleet_moment fleet_heap_pop(struct fleet_heap *h)
{
    struct fleet_moment top = h->m[0], last = h->m[--h->n];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 4 * i + 1, least = child;
        if (child >= h->n) break;
        for (uint32_t k = 1; k < 4 && child + k < h->n; k++) {
            if (fleet_before(&h->m[child + k], &h->m[least])) least = child + k;
        }
        if (!fleet_before(&h->m[least], &last)) break;
        h->m[i] = h->m[least];
        i = least;
    }
    h->m[i] = last;
    return top;
}

#endif
