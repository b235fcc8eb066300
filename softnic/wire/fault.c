/* SPDX-License-Identifier: Apache-2.0 */
/* Loses, doubles, delays and damages frames by seeded chance. */
#include "softnic/wire/fault.h"

#include <stdlib.h>
#include <string.h>

struct held {
    uint64_t due, order; /* frames that are due together leave in the order they came */
    uint16_t store;      /* index of its bytes */
    struct sn_frame frame;
};

struct sn_fault {
    struct sn_fault_params params;
    sn_fault_sink *sink;
    void *ctx;
    uint64_t random, order;
    uint64_t start;   /* when params were set */
    uint64_t free_at; /* a slow link is busy until then */
    struct sn_fault_stats stats;
    uint32_t held; /* frames in the heap, the earliest first */
    struct held heap[SN_FAULT_HELD];
    uint16_t free_stores[SN_FAULT_HELD];
    uint8_t damaged[SN_FAULT_FRAME];
    uint8_t store[SN_FAULT_HELD][SN_FAULT_FRAME];
};

/* SplitMix64 (public domain, S. Vigna). */
static uint64_t fault_draw(struct sn_fault *f)
{
    uint64_t z = f->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool chance(struct sn_fault *f, double p)
{
    return (double)(fault_draw(f) >> 11) * 0x1p-53 < p;
}

/* Other threads read the numbers at the same time. */
static void fault_count(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

struct sn_fault *sn_fault_new(const struct sn_fault_params *params, uint64_t seed, uint64_t now,
                              sn_fault_sink *sink, void *ctx)
{
    struct sn_fault *f = calloc(1, sizeof(*f));

    if (!f) return NULL;
    f->random = seed;
    f->sink = sink;
    f->ctx = ctx;
    for (uint32_t i = 0; i < SN_FAULT_HELD; i++) f->free_stores[i] = (uint16_t)i;
    sn_fault_set(f, params, now);
    return f;
}

void sn_fault_set(struct sn_fault *f, const struct sn_fault_params *params, uint64_t now)
{
    f->params = *params;
    f->start = f->free_at = now;
}

void sn_fault_seed(struct sn_fault *f, uint64_t seed)
{
    f->random = seed;
}

void sn_fault_free(struct sn_fault *fault)
{
    free(fault);
}

void sn_fault_stats(const struct sn_fault *fault, struct sn_fault_stats *stats)
{
    const uint64_t *from = (const uint64_t *)&fault->stats;
    uint64_t *to = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* ---- frames under way: a heap ordered by due time ------------------------------------------------------ */

static bool before(const struct held *a, const struct held *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void fault_swap(struct held *a, struct held *b)
{
    struct held t = *a;

    *a = *b;
    *b = t;
}

static void fault_hold(struct sn_fault *f, uint64_t due, const struct sn_frame *frame)
{
    uint32_t i = f->held;
    struct held *h = &f->heap[i];

    if (i == SN_FAULT_HELD) {
        fault_count(&f->stats.overflowed);
        return;
    }
    h->due = due;
    h->order = f->order++;
    h->store = f->free_stores[f->held++];
    h->frame = *frame;
    h->frame.data = f->store[h->store];
    memcpy(h->frame.data, frame->data, frame->len);
    for (; i && before(&f->heap[i], &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
        fault_swap(&f->heap[i], &f->heap[(i - 1) / 2]);
}

static void remove_first(struct sn_fault *f)
{
    uint32_t i = 0, child;

    f->free_stores[--f->held] = f->heap[0].store;
    f->heap[0] = f->heap[f->held];
    for (; (child = 2 * i + 1) < f->held; i = child) {
        if (child + 1 < f->held && before(&f->heap[child + 1], &f->heap[child])) child++;
        if (!before(&f->heap[child], &f->heap[i])) break;
        fault_swap(&f->heap[child], &f->heap[i]);
    }
}

void sn_fault_run(struct sn_fault *f, uint64_t now)
{
    while (f->held && f->heap[0].due <= now && f->sink(f->ctx, &f->heap[0].frame)) {
        fault_count(&f->stats.passed);
        remove_first(f);
    }
}

uint64_t sn_fault_next(const struct sn_fault *f)
{
    return f->held ? f->heap[0].due : UINT64_MAX;
}

bool sn_fault_idle(const struct sn_fault *f)
{
    return !f->held && !sn_fault_any(&f->params);
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static bool is_down(const struct sn_fault *f, uint64_t now)
{
    uint64_t t = now - f->start;

    for (unsigned i = 0; i < f->params.downs; i++) {
        if (t >= f->params.down[i].from && t < f->params.down[i].until) return true;
    }
    return false;
}

static struct sn_frame damage(struct sn_fault *f, const struct sn_frame *frame)
{
    struct sn_frame damaged = *frame;

    memcpy(f->damaged, frame->data, frame->len);
    for (uint64_t bits = 1 + fault_draw(f) % 4; bits && frame->len; bits--) {
        uint64_t at = fault_draw(f) % (frame->len * 8ull);

        f->damaged[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    fault_count(&f->stats.damaged);
    damaged.data = f->damaged;
    return damaged;
}

/* When a frame that comes to the link now has left it. */
static uint64_t through_link(struct sn_fault *f, uint64_t now, uint32_t len)
{
    if (!f->params.rate) return now;
    if (f->free_at < now) f->free_at = now;
    f->free_at += (uint64_t)((double)(len + SN_FAULT_GAPS) * 8e9 / (double)f->params.rate);
    return f->free_at;
}

/* One copy of a frame: at once, or when it is due. */
static bool send_copy(struct sn_fault *f, uint64_t now, const struct sn_frame *frame)
{
    uint64_t due = through_link(f, now, frame->len) + f->params.delay_ns;

    if (f->params.jitter_ns) due += fault_draw(f) % (f->params.jitter_ns + 1);
    if (chance(f, f->params.reorder)) {
        due += 1 + fault_draw(f) % SN_FAULT_BEHIND_NS;
        fault_count(&f->stats.overtaken);
    }
    if (due > now) {
        fault_hold(f, due, frame);
        return true;
    }
    if (!f->sink(f->ctx, frame)) return false;
    fault_count(&f->stats.passed);
    return true;
}

bool sn_fault_send(struct sn_fault *f, uint64_t now, const struct sn_frame *frame)
{
    struct sn_frame damaged;

    sn_fault_run(f, now);
    if (is_down(f, now)) {
        fault_count(&f->stats.cut);
        return true;
    }
    if (chance(f, f->params.loss) || frame->len > SN_FAULT_FRAME) {
        fault_count(&f->stats.lost);
        return true;
    }
    if (chance(f, f->params.corrupt)) {
        damaged = damage(f, frame);
        frame = &damaged;
    }
    if (!send_copy(f, now, frame)) return false;
    if (chance(f, f->params.dup)) {
        fault_count(&f->stats.doubled);
        send_copy(f, now, frame);
    }
    return true;
}
