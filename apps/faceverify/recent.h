/* SPDX-License-Identifier: Apache-2.0 */
/* recent.h: the last requests of each block, which a kernel writes and the host reads: for the page.
 * Under load a block writes only one request in some milliseconds, so that the GPU's bus carries little
 * of it. */
#ifndef FACE_RECENT_H
#define FACE_RECENT_H

#include <stdbool.h>

#include <gpuwire/sync.h>

#include "apps/faceverify/face.h"

enum { FACE_RECENT = 32 };
/* On average one request is written in this time. Up to FACE_RECENT_BURST more may come at once. */
#define FACE_RECENT_NS    4000000u
#define FACE_RECENT_BURST 8u

/* One request. */
struct face_recent_one {
    uint64_t
        turn; /* of the writer: odd while it writes; 2 for the block's first request, 4 for its second, … */
    uint64_t ns[FACE_POINTS];
    float distance;
    uint32_t server; /* its place in the list of memcacheds */
    uint16_t verdict, name_len;
    char name[FACE_NAME_MAX + 4];
};
enum { FACE_RECENT_WORDS = sizeof(struct face_recent_one) / 8 };
static_assert(sizeof(struct face_recent_one) == 8 * FACE_RECENT_WORDS, "written in words");

/* Of a block, in host memory. */
struct face_recent {
    struct face_recent_one one[FACE_RECENT];
};

/* The writer remembers this, in memory of its own. All zero: it has written none. */
struct face_recent_pen {
    uint64_t count, next_ns;
};

/* May it write a request now? */
GW_FN bool face_recent_may(const struct face_recent_pen *pen, uint64_t now)
{
    return pen->next_ns <= now + FACE_RECENT_BURST * FACE_RECENT_NS;
}

/* Writes a request, if it may. `one` is filled in but for turn. One thread of the block. */
GW_FN void face_recent_write(struct face_recent *r, struct face_recent_pen *pen, struct face_recent_one *one,
                             uint64_t now)
{
    uint64_t *to = (uint64_t *)&r->one[pen->count % FACE_RECENT], word[FACE_RECENT_WORDS];
    uint32_t i;

    if (!face_recent_may(pen, now)) return;
    pen->next_ns = (pen->next_ns > now ? pen->next_ns : now) + FACE_RECENT_NS;
    memcpy(word, one, sizeof(word));
    gw_st_relaxed_u64(to, 2 * pen->count + 1);
    gw_fence_release(); /* no word of the request before the odd turn */
    for (i = 1; i < FACE_RECENT_WORDS; i++) gw_st_relaxed_u64(to + i, word[i]);
    gw_fence_release(); /* the even turn after all words */
    gw_st_relaxed_u64(to, 2 * ++pen->count);
}

/* Copies entry i, unless the writer touches it at that time. false: it does. The host's. */
GW_FN bool face_recent_read(const struct face_recent *r, uint32_t i, struct face_recent_one *one)
{
    const uint64_t *from = (const uint64_t *)&r->one[i];
    uint64_t word[FACE_RECENT_WORDS], turn = gw_ld_relaxed_u64(from);
    uint32_t k;

    gw_fence_acquire(); /* the words after the turn */
    if (!turn || turn & 1) return false;
    for (k = 1; k < FACE_RECENT_WORDS; k++) word[k] = gw_ld_relaxed_u64(from + k);
    gw_fence_acquire(); /* the second look at the turn after the words */
    word[0] = turn;
    memcpy(one, word, sizeof(word));
    return gw_ld_relaxed_u64(from) == turn && one->name_len <= FACE_NAME_MAX && one->verdict < FACE_VERDICTS;
}

#endif
