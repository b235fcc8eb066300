/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atomic.h: what a masked atomic makes of 8 bytes. Pure functions, any thread. Source: NVIDIA's description
 * of ConnectX's extended atomic operations, MskCmpSwap and MFetchAdd (documentation of the OFED drivers,
 * "Advanced Transport").
 */
#ifndef GW_SRC_ROCE_ATOMIC_H
#define GW_SRC_ROCE_ATOMIC_H

#include <stdint.h>

/* If value equals compare in the bits of compare_mask, its bits of swap_mask become those of swap. */
static inline uint64_t roce_masked_swap(uint64_t value, uint64_t swap, uint64_t compare, uint64_t swap_mask,
                                        uint64_t compare_mask)
{
    if ((value ^ compare) & compare_mask) return value;
    return (value & ~swap_mask) | (swap & swap_mask);
}

/*
 * Adds field by field: each bit of boundary is the highest of its field, and nothing is carried out of it.
 * The sum of what lies below those bits carries into them at most; what they add to that has no carry.
 */
static inline uint64_t roce_masked_add(uint64_t value, uint64_t add, uint64_t boundary)
{
    return ((value & ~boundary) + (add & ~boundary)) ^ ((value ^ add) & boundary);
}

#endif
