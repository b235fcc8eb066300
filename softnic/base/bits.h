/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as headers of the network have them, and sizes of rings. */
#ifndef SOFTNIC_BASE_BITS_H
#define SOFTNIC_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline void sn_put16_be(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline uint32_t sn_get16_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline bool sn_is_power_of_two(uint64_t n)
{
    return n && !(n & (n - 1));
}

#endif
