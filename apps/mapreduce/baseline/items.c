/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting on all threads: items are spread over buckets by splitters from a sample; each bucket is sorted
 * alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "baseline.h"

typedef bool (*item_less)(const struct item *a, const struct item *b);

enum { BUCKETS = 1024, SAMPLE = 16 }; /* buckets at most; sampled items for each */

struct sorting {
    struct item *from, *to;
    uint64_t n, part, parts; /* items; of them in a part, which one thread spreads */
    uint64_t splitter[BUCKETS], start[BUCKETS + 1];
    uint64_t *at; /* [part][bucket]: how many it has, then where they go */
    item_less less;
};

static inline bool item_before(const struct item *a, const struct item *b, item_less less)
{
    return a->key != b->key ? a->key < b->key : less(a, b);
}

static void sort_few(struct item *a, uint64_t n, item_less less)
{
    for (uint64_t i = 1; i < n; i++) {
        struct item x = a[i];
        uint64_t k = i;

        for (; k && item_before(&x, &a[k - 1], less); k--) a[k] = a[k - 1];
        a[k] = x;
    }
}

/* Heap sort, for what quicksort divides badly. */
static void sort_heap(struct item *a, uint64_t n, item_less less)
{
    for (uint64_t end = n, root = n / 2; end > 1;) {
        struct item x;
        uint64_t i, child;

        if (root) {
            x = a[--root];
        } else {
            x = a[--end];
            a[end] = a[0];
        }
        for (i = root; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && item_before(&a[child], &a[child + 1], less)) child++;
            if (!item_before(&x, &a[child], less)) break;
            a[i] = a[child];
        }
        a[i] = x;
    }
}

static struct item median(const struct item *a, const struct item *b, const struct item *c, item_less less)
{
    if (item_before(a, b, less)) return item_before(b, c, less) ? *b : item_before(a, c, less) ? *c : *a;
    return item_before(a, c, less) ? *a : item_before(b, c, less) ? *c : *b;
}

static void sort_run(struct item *a, uint64_t n, item_less less, int depth)
{
    while (n > 24) {
        struct item pivot = median(&a[0], &a[n / 2], &a[n - 1], less);
        uint64_t i = 0, k = n - 1;

        if (!depth--) return sort_heap(a, n, less);
        for (;; i++, k--) {
            struct item x;

            while (item_before(&a[i], &pivot, less)) i++;
            while (item_before(&pivot, &a[k], less)) k--;
            if (i >= k) break;
            x = a[i];
            a[i] = a[k];
            a[k] = x;
        }
        sort_run(a + k + 1, n - k - 1, less, depth);
        n = k + 1;
    }
    sort_few(a, n, less);
}

/* Which bucket a key belongs into: how many splitters are not above it. There are 2^k - 1 of them. */
static uint32_t bucket_of(const struct sorting *s, uint64_t key)
{
    uint32_t low = 0;

    for (uint32_t half = BUCKETS / 2; half; half /= 2) low += s->splitter[low + half - 1] <= key ? half : 0;
    return low;
}

static void part_count(void *arg, uint64_t p)
{
    struct sorting *s = (struct sorting *)arg;
    uint64_t *at = s->at + p * BUCKETS, end = (p + 1) * s->part < s->n ? (p + 1) * s->part : s->n;

    for (uint64_t i = p * s->part; i < end; i++) at[bucket_of(s, s->from[i].key)]++;
}

static void part_spread(void *arg, uint64_t p)
{
    struct sorting *s = (struct sorting *)arg;
    uint64_t *at = s->at + p * BUCKETS, end = (p + 1) * s->part < s->n ? (p + 1) * s->part : s->n;

    for (uint64_t i = p * s->part; i < end; i++) s->to[at[bucket_of(s, s->from[i].key)]++] = s->from[i];
}

static void bucket_sort(void *arg, uint64_t b)
{
    struct sorting *s = (struct sorting *)arg;
    uint64_t start = s->start[b], n = s->start[b + 1] - start;

    sort_run(s->to + start, n, s->less, 64);
    memcpy(s->from + start, s->to + start, n * sizeof(*s->to));
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void choose_splitters(struct sorting *s)
{
    uint64_t sample[BUCKETS * SAMPLE], n = (uint64_t)BUCKETS * SAMPLE;

    for (uint64_t i = 0; i < n; i++) sample[i] = s->from[i * (s->n / n)].key;
    qsort(sample, n, sizeof(*sample), by_number);
    for (uint32_t i = 0; i + 1 < BUCKETS; i++) s->splitter[i] = sample[(i + 1) * SAMPLE];
}

/* From what each part counted: where its items of each bucket go. */
static void choose_places(struct sorting *s)
{
    uint64_t sum = 0;

    for (uint32_t b = 0; b < BUCKETS; b++) {
        s->start[b] = sum;
        for (uint64_t p = 0; p < s->parts; p++) {
            uint64_t n = s->at[p * BUCKETS + b];

            s->at[p * BUCKETS + b] = sum;
            sum += n;
        }
    }
    s->start[BUCKETS] = sum;
}

int items_sort(const struct work *w, struct item *item, uint64_t n, item_less less)
{
    struct sorting *s;
    int err = -ENOMEM;

    if (n < 4 * BUCKETS * SAMPLE) {
        sort_run(item, n, less, 64);
        return 0;
    }
    s = (struct sorting *)calloc(1, sizeof(*s));
    if (s) {
        s->from = item;
        s->n = n;
        s->less = less;
        s->parts = 4 * w->threads;
        s->part = n / s->parts + 1;
        s->at = (uint64_t *)calloc(s->parts * BUCKETS, sizeof(*s->at));
        s->to = (struct item *)malloc(n * sizeof(*s->to));
    }
    if (s && s->at && s->to) {
        choose_splitters(s);
        parallel(w, s->parts, part_count, s);
        choose_places(s);
        parallel(w, s->parts, part_spread, s);
        parallel(w, BUCKETS, bucket_sort, s);
        err = 0;
    }
    if (s) {
        free(s->at);
        free(s->to);
    }
    free(s);
    return err ? gw_error(err, "no memory to sort %llu items", (unsigned long long)n) : 0;
}
