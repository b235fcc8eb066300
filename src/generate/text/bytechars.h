/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-level BPE writes each byte as a visible character: itself where it is one in Latin-1, else one from
 * U+0100 on. */
#ifndef GW_GENERATE_TEXT_BYTECHARS_H
#define GW_GENERATE_TEXT_BYTECHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/text/utf8.h"

static inline bool gen_byte_is_visible(uint32_t byte)
{
    return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

/* The character of a byte. */
static inline uint32_t gen_byte_char(unsigned char byte)
{
    if (gen_byte_is_visible(byte)) return byte;
    /* In the order of the bytes: 0 to 0x20 first, then 0x7F to 0xA0, then 0xAD. */
    return 0x100u + (byte <= 0x20 ? byte : byte == 0xAD ? 67 : byte - 0x7Fu + 33);
}

/* The byte of a character, or -1. */
static inline int gen_char_byte(uint32_t c)
{
    if (c < 0x100) return gen_byte_is_visible(c) ? (int)c : -1;
    if (c > 0x143) return -1;
    c -= 0x100;
    return c <= 0x20 ? (int)c : c == 67 ? 0xAD : (int)(c - 33 + 0x7F);
}

/* Writes the bytes as characters; `out` has room for twice as many. Returns how many bytes it wrote. */
static inline size_t gen_bytes_to_chars(const char *at, size_t bytes, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += gen_utf8_put(out + n, gen_byte_char((unsigned char)at[i]));
    return n;
}

#endif
