/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h: a queue of records with one writer and one reader. It takes no lock. */
#ifndef GW_SRC_BALANCE_RING_H
#define GW_SRC_BALANCE_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/record.h"

enum { BAL_RING = 8192 };
struct bal_ring {
    _Atomic uint32_t head, tail;
    struct bal_record record[BAL_RING];
};

static inline bool bal_ring_push(struct bal_ring *r, const struct bal_record *record)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    /* acquire: the reader is done with the place before it is written again */
    uint32_t used = tail - atomic_load_explicit(&r->head, memory_order_acquire);
    GW_ASSERT(used <= BAL_RING);
    if (used == BAL_RING) return false;
    r->record[tail % BAL_RING] = *record;
    /* release: the record is written before it is seen */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

static inline size_t bal_ring_pop(struct bal_ring *r, struct bal_record *out, size_t n)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    /* acquire, release: as in bal_ring_push, the other way round */
    uint32_t there = atomic_load_explicit(&r->tail, memory_order_acquire) - head;
    GW_ASSERT(there <= BAL_RING);
    if (n > there) n = there;
    for (size_t i = 0; i < n; i++) out[i] = r->record[(head + i) % BAL_RING];
    atomic_store_explicit(&r->head, head + (uint32_t)n, memory_order_release);
    return n;
}

/* Are n places free? For the writer. */
static inline bool bal_ring_has_room(const struct bal_ring *r, uint32_t n)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    return tail - atomic_load_explicit(&r->head, memory_order_acquire) <= BAL_RING - n;
}

#endif
