/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checksum.h: the Internet checksum (RFC 1071), and what becomes of it when covered bytes change (RFC 1624).
 * Pure functions, any thread.
 */
#ifndef GW_SRC_BALANCE_CHECKSUM_H
#define GW_SRC_BALANCE_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The sum of 16-bit words, not yet folded. An odd last byte is the high half of its word. */
static inline uint64_t bal_sum(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t sum = 0;
    for (; n > 1; n -= 2, p += 2) sum += (uint64_t)(p[0] << 8 | p[1]);
    return n ? sum + (uint64_t)(p[0] << 8) : sum;
}

static inline uint16_t bal_sum_fold(uint64_t sum)
{
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Is an IPv4 header of n bytes, a multiple of four, what its checksum says? The sum is right in either byte
 * order. */
static inline bool bal_header_ok(const uint8_t *ip, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t word;
        memcpy(&word, ip + i, 4);
        sum += word;
    }
    sum = (sum & UINT32_MAX) + (sum >> 32);
    return bal_sum_fold(sum) == 0xffff;
}

/* The change of the sum when n bytes (even, at an even place) go from `from` to `to`. */
static inline uint64_t bal_sum_change(const void *from, const void *to, size_t n)
{
    const uint8_t *a = from, *b = to;
    uint64_t sum = 0;
    for (; n; n -= 2, a += 2, b += 2)
        sum += (uint64_t)(uint16_t) ~(a[0] << 8 | a[1]) + (uint64_t)(b[0] << 8 | b[1]);
    return sum;
}

/* Writes the checksum at p that it is after a change. */
static inline void bal_checksum_patch(uint8_t *p, uint64_t change)
{
    uint16_t sum = bal_sum_fold((uint64_t)(uint16_t) ~(p[0] << 8 | p[1]) + change);
    sum = (uint16_t)~sum;
    p[0] = (uint8_t)(sum >> 8);
    p[1] = (uint8_t)sum;
}

static inline void bal_checksum_write(uint8_t *p, uint64_t sum)
{
    uint16_t value = (uint16_t)~bal_sum_fold(sum);
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

#endif
