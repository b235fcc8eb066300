/* SPDX-License-Identifier: Apache-2.0 */
/* Copying to where another processor has read before. */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <gpuwire/group.h>

enum { LINE = 64, LONG = 2048 };

/*
 * The lines of such a place lie in the reader's cache. To get each from there before it is written costs more
 * than the copy: several times as much where the processors share no cache. Stores that go past the caches
 * need not. What is short is sooner read from a cache.
 */
#ifdef __SSE2__
void gw_cpu_copy_away_(void *to, const void *from, uint64_t n)
{
    const uint8_t *s = from;
    uint8_t *d = to;
    uint64_t head = -(uintptr_t)d & (LINE - 1), at;

    if (n < LONG) {
        memcpy(d, s, n);
        return;
    }
    memcpy(d, s, head);
    for (at = head; at + LINE <= n; at += LINE)
        for (uint64_t i = at; i < at + LINE; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(d + i), _mm_loadu_si128((const __m128i *)(s + i)));
    memcpy(d + at, s + at, n - at);
    _mm_sfence(); /* no release orders these stores */
}
#else
void gw_cpu_copy_away_(void *to, const void *from, uint64_t n)
{
    memcpy(to, from, n);
}
#endif
