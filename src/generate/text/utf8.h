/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, character by character. Bytes that are not UTF-8 count as U+FFFD: one for each longest beginning
 * of a character, as Unicode recommends, and as Rust and Python do. */
#ifndef GW_GENERATE_TEXT_UTF8_H
#define GW_GENERATE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GEN_UTF8_FAULT "\xEF\xBF\xBD"

/* How many bytes a character has that begins with `lead`, and which second bytes it may have; 0: none
 * begins so. */
static inline unsigned gen_utf8_lead(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    if (lead < 0xE0) return 2;
    if (lead == 0xE0) *low = 0xA0;  /* shorter forms exist */
    if (lead == 0xED) *high = 0x9F; /* surrogates */
    if (lead == 0xF0) *low = 0x90;
    if (lead == 0xF4) *high = 0x8F; /* beyond U+10FFFF */
    return lead < 0xF0 ? 3 : 4;
}

/*
 * Looks at the character that `at` begins with; at most `bytes` (not 0) may be read. Returns how many bytes
 * it has, or a fault has. `whole` tells a character from a fault; `open` whether more bytes could make a
 * character of the fault.
 */
static inline unsigned gen_utf8_scan(const char *at, size_t bytes, bool *whole, bool *open)
{
    unsigned char low, high;
    unsigned n = gen_utf8_lead((unsigned char)at[0], &low, &high), i = 1;
    *open = false;
    *whole = n != 0;
    if (n < 2) return 1;
    while (i < n && i < bytes && (unsigned char)at[i] >= low && (unsigned char)at[i] <= high) {
        low = 0x80;
        high = 0xBF;
        i++;
    }
    *whole = i == n;
    *open = i < n && i == bytes;
    return i;
}

/* The character of valid UTF-8 at `at`, and its length. */
static inline unsigned gen_utf8_get(const char *at, uint32_t *c)
{
    const unsigned char *s = (const unsigned char *)at;
    if (s[0] < 0x80) {
        *c = s[0];
        return 1;
    }
    if (s[0] < 0xE0) {
        *c = (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3F);
        return 2;
    }
    if (s[0] < 0xF0) {
        *c = (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3F);
        return 3;
    }
    *c = (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 | (uint32_t)(s[2] & 0x3F) << 6 |
         (s[3] & 0x3F);
    return 4;
}

/* The length of the character of valid UTF-8 at `at`. */
static inline unsigned gen_utf8_length(const char *at)
{
    unsigned char c = (unsigned char)at[0];
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Where the character before `at` begins, in valid UTF-8 that begins at `start`. */
static inline size_t gen_utf8_before(const char *start, size_t at)
{
    do {
        at--;
    } while (at && ((unsigned char)start[at] & 0xC0) == 0x80);
    return at;
}

/* Writes the character, and returns its length. */
static inline unsigned gen_utf8_put(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

#endif
