/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: a fuzzer's input as a stream of numbers, and what must hold. */
#ifndef TESTS_FUZZ_STREAM_H
#define TESTS_FUZZ_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The fuzzer's bytes; zeros when they are used up. */
struct stream {
    const uint8_t *p;
    size_t left;
};

static inline uint8_t take8(struct stream *s)
{
    if (!s->left) return 0;
    s->left--;
    return *s->p++;
}

static inline uint16_t take16(struct stream *s)
{
    uint16_t hi = take8(s);

    return (uint16_t)(hi << 8 | take8(s));
}

static inline uint32_t take32(struct stream *s)
{
    uint32_t hi = take16(s);

    return hi << 16 | take16(s);
}

/* What must hold. Says where it did not, since the sanitizers' report names no line of an inlined call. */
#define require(ok)                                                                                          \
    ((ok) ? (void)0 : (fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #ok), abort()))

#endif
