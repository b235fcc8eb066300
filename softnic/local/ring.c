/* SPDX-License-Identifier: Apache-2.0 */
/* Puts frames into a ring of shared memory, and takes them out. */
#include "softnic/local/ring.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "src/roce/hdr.h"

enum { LINE = 64, LONG = 1024 };
_Static_assert(_Alignof(struct sn_share_frame) == LINE, "lines of a frame are its own");

/*
 * The place's lines are in the reader's cache. Getting each from there before it is written costs more than
 * the copy: three times as much on a virtual machine (bench/copy_bench.c). Stores that go past the caches
 * need not. What is short is sooner read from a cache.
 */
#ifdef __SSE2__
static void copy_in(struct sn_share_frame *f, const uint8_t *from, uint32_t len)
{
    const uint32_t head = LINE - offsetof(struct sn_share_frame, data);
    uint32_t at = head;

    if (len < LONG) {
        memcpy(f->data, from, len);
        return;
    }
    memcpy(f->data, from, head);
    for (; at + LINE <= len; at += LINE)
        for (uint32_t i = at; i < at + LINE; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(f->data + i), _mm_loadu_si128((const __m128i *)(from + i)));
    memcpy(f->data + at, from + at, len - at);
    _mm_sfence(); /* the release of the count does not order these stores */
}
#else
static void copy_in(struct sn_share_frame *f, const uint8_t *from, uint32_t len)
{
    memcpy(f->data, from, len);
}
#endif

uint32_t sn_ring_used(const struct sn_channel *ch, uint32_t tail)
{
    /* Acquire: the reader has copied a frame before it gave the place back, so it is overwritten only then.
     */
    return tail - __atomic_load_n(&ch->head, __ATOMIC_ACQUIRE);
}

bool sn_ring_put(struct sn_channel *ch, uint32_t *tail, const uint8_t *data, uint32_t len, bool rndv)
{
    struct sn_share_frame *f = &ch->frame[*tail % SN_SHARE_FRAMES];

    GW_ASSERT(len <= SN_FRAME_MAX);
    if (sn_ring_used(ch, *tail) >= SN_SHARE_FRAMES) return false;
    f->len = len;
    f->rndv = rndv;
    copy_in(f, data, len);
    ++*tail;
    /* Release: who sees the count sees the frame. */
    __atomic_store_n(&ch->tail, *tail, __ATOMIC_RELEASE);
    return true;
}

/* By our own count, not the channel's copy of it: the other could write there, and never let us sleep. */
bool sn_ring_empty(const struct sn_channel *ch, const uint32_t *head)
{
    return __atomic_load_n(&ch->tail, __ATOMIC_RELAXED) == __atomic_load_n(head, __ATOMIC_RELAXED);
}

int sn_ring_take(struct sn_channel *ch, uint32_t *head, uint8_t *to, bool *rndv)
{
    struct sn_share_frame *f = &ch->frame[*head % SN_SHARE_FRAMES];
    /* Acquire, with the release in sn_ring_put. */
    uint32_t n = __atomic_load_n(&ch->tail, __ATOMIC_ACQUIRE) - *head, len;

    if (!n) return 0;
    len = __atomic_load_n(&f->len, __ATOMIC_RELAXED); /* once: it may change */
    if (n > SN_SHARE_FRAMES || len < ROCE_MIN_PACKET || len > SN_FRAME_MAX) return -EPROTO;
    *rndv = __atomic_load_n(&f->rndv, __ATOMIC_RELAXED) != 0;
    memcpy(to, f->data, len);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELAXED); /* one at a time takes; others look */
    /* Release: the place is free only once the frame was copied. */
    __atomic_store_n(&ch->head, *head, __ATOMIC_RELEASE);
    return (int)len;
}
