/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h: messages that say of themselves which they are: one made of parts of two is found out. */
#ifndef TESTS_SOFTNIC_PATTERN_H
#define TESTS_SOFTNIC_PATTERN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PATTERN_MIN = 8 };

static inline uint8_t pattern_byte(uint32_t number, uint32_t i)
{
    return (uint8_t)((number * 2654435761u + i * 40503u) >> 11);
}

/* len >= PATTERN_MIN */
static inline void pattern_fill(uint8_t *p, uint32_t number, uint32_t len)
{
    memcpy(p, &number, 4);
    memcpy(p + 4, &len, 4);
    for (uint32_t i = PATTERN_MIN; i < len; i++) p[i] = pattern_byte(number, i);
}

/* Is it a message, whole? Then *number is which. */
static inline bool pattern_ok(const uint8_t *p, uint32_t len, uint32_t *number)
{
    uint32_t said;

    if (len < PATTERN_MIN) return false;
    memcpy(number, p, 4);
    memcpy(&said, p + 4, 4);
    if (said != len) return false;
    for (uint32_t i = PATTERN_MIN; i < len; i++)
        if (p[i] != pattern_byte(*number, i)) return false;
    return true;
}

#endif
