/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/fault.h"

#include <stdlib.h>
#include <string.h>

struct held {
    uint64_t due, order; /* frames that are due together leave in the order they came */
    uint32_t len;
    uint16_t store; /* index of its bytes */
    uint8_t to[16];
};

struct sn_fault {
    struct sn_fault_params params;
    sn_fault_sink *sink;
    void *ctx;
    uint64_t random, order;
    struct sn_fault_stats stats;
    uint32_t held; /* frames in the heap, the earliest first */
    struct held heap[SN_FAULT_HELD];
    uint16_t free_stores[SN_FAULT_HELD];
    uint8_t damaged[SN_FAULT_FRAME];
    uint8_t store[SN_FAULT_HELD][SN_FAULT_FRAME];
};

/* SplitMix64 (public domain, S. Vigna). */
static uint64_t draw(struct sn_fault *f)
{
    uint64_t z = f->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool chance(struct sn_fault *f, double p)
{
    return (double)(draw(f) >> 11) * 0x1p-53 < p;
}

struct sn_fault *sn_fault_new(const struct sn_fault_params *params, uint64_t seed, sn_fault_sink *sink,
                              void *ctx)
{
    struct sn_fault *f = calloc(1, sizeof(*f));

    if (!f) return NULL;
    f->params = *params;
    f->random = seed;
    f->sink = sink;
    f->ctx = ctx;
    for (uint32_t i = 0; i < SN_FAULT_HELD; i++) f->free_stores[i] = (uint16_t)i;
    return f;
}

void sn_fault_free(struct sn_fault *fault)
{
    free(fault);
}

const struct sn_fault_stats *sn_fault_stats(const struct sn_fault *fault)
{
    return &fault->stats;
}

/* ---- frames under way: a heap ordered by due time
 * ------------------------------------------------------------------- */

static bool before(const struct held *a, const struct held *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap(struct held *a, struct held *b)
{
    struct held t = *a;

    *a = *b;
    *b = t;
}

static void hold(struct sn_fault *f, uint64_t due, const uint8_t to[16], const void *frame, uint32_t len)
{
    uint32_t i = f->held;
    struct held *h = &f->heap[i];

    if (i == SN_FAULT_HELD) {
        f->stats.overflowed++;
        return;
    }
    h->due = due;
    h->order = f->order++;
    h->len = len;
    h->store = f->free_stores[f->held++];
    memcpy(h->to, to, 16);
    memcpy(f->store[h->store], frame, len);
    for (; i && before(&f->heap[i], &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&f->heap[i], &f->heap[(i - 1) / 2]);
}

static void remove_first(struct sn_fault *f)
{
    uint32_t i = 0, child;

    f->free_stores[--f->held] = f->heap[0].store;
    f->heap[0] = f->heap[f->held];
    for (; (child = 2 * i + 1) < f->held; i = child) {
        if (child + 1 < f->held && before(&f->heap[child + 1], &f->heap[child])) child++;
        if (!before(&f->heap[child], &f->heap[i])) break;
        swap(&f->heap[child], &f->heap[i]);
    }
}

void sn_fault_run(struct sn_fault *f, uint64_t now)
{
    while (f->held && f->heap[0].due <= now) {
        const struct held *h = &f->heap[0];

        if (f->sink(f->ctx, h->to, f->store[h->store], h->len)) {
            f->stats.passed++;
        } else {
            f->stats.overflowed++;
        }
        remove_first(f);
    }
}

uint64_t sn_fault_next(const struct sn_fault *f)
{
    return f->held ? f->heap[0].due : UINT64_MAX;
}

/* ---- sending
 * -------------------------------------------------------------------------------------------------------- */

static const void *damage(struct sn_fault *f, const void *frame, uint32_t len)
{
    memcpy(f->damaged, frame, len);
    for (uint64_t bits = 1 + draw(f) % 4; bits && len; bits--) {
        uint64_t at = draw(f) % (len * 8ull);

        f->damaged[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    f->stats.damaged++;
    return f->damaged;
}

/* One copy of a frame: at once, or when it is due. */
static bool send_copy(struct sn_fault *f, uint64_t now, const uint8_t to[16], const void *frame, uint32_t len)
{
    uint64_t due = now + f->params.delay_ns;

    if (chance(f, f->params.reorder)) {
        due += 1 + draw(f) % SN_FAULT_BEHIND_NS;
        f->stats.overtaken++;
    }
    if (due > now) {
        hold(f, due, to, frame, len);
        return true;
    }
    if (!f->sink(f->ctx, to, frame, len)) return false;
    f->stats.passed++;
    return true;
}

bool sn_fault_send(struct sn_fault *f, uint64_t now, const uint8_t to[16], const void *frame, uint32_t len)
{
    sn_fault_run(f, now);
    if (chance(f, f->params.loss) || len > SN_FAULT_FRAME) {
        f->stats.lost++;
        return true;
    }
    if (chance(f, f->params.corrupt)) frame = damage(f, frame, len);
    if (!send_copy(f, now, to, frame, len)) return false;
    if (chance(f, f->params.dup)) {
        f->stats.doubled++;
        send_copy(f, now, to, frame, len);
    }
    return true;
}
