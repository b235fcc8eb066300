/* SPDX-License-Identifier: Apache-2.0 */
/* rnd.h: a seeded generator for tests (xorshift64*): the same numbers everywhere, so that a failing seed
 * replays. */
#ifndef GW_TESTS_RND_H
#define GW_TESTS_RND_H

#include <stddef.h>
#include <stdint.h>

struct rnd {
    uint64_t state;
};

static inline uint64_t rnd64(struct rnd *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * UINT64_C(2685821657736338717);
}

/* 0 … n - 1 */
static inline uint32_t rnd_below(struct rnd *r, uint32_t n)
{
    return (uint32_t)((rnd64(r) >> 32) * n >> 32);
}

static inline void rnd_bytes(struct rnd *r, void *p, size_t n)
{
    for (size_t i = 0; i < n; i++) ((uint8_t *)p)[i] = (uint8_t)(rnd64(r) >> 56);
}

#endif
