/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of buffers, so that every byte that arrives can be told from every other. Both sides run
 * this. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/perf/perf.h"

/* Never 0, so that what did not arrive is seen. */
static void perf_fill_pattern(uint8_t *to, uint64_t n, struct perf_content what, uint64_t qp, uint64_t slot)
{
    uint32_t x =
        (uint32_t)((what.seed << 20 ^ qp << 40 ^ (what.same ? 0 : slot)) * UINT64_C(0x9e3779b97f4a7c15) >>
                   32);

    if (!what.seed) {
        memset(to, 0, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++, x += 2654435761u) to[i] = (uint8_t)(x >> 24 | 1);
}

int perf_fill(struct perf_side *s, const struct perf_place *at, struct perf_content what)
{
    uint8_t *image = calloc(1, at->span);
    int err = image ? 0 : gw_error_errno(-ENOMEM, "buffers");

    for (uint32_t q = 0; !err && q < s->shape.qps; q++) {
        for (uint32_t i = 0; i < at->slots; i++)
            perf_fill_pattern(image + (uint64_t)i * at->stride, at->stride, what, q, i);
        err = perf_copy_in(s, q * at->span, image, at->span);
    }
    free(image);
    return err;
}

static void perf_fill_compare(const uint8_t *a, const uint8_t *b, uint64_t n, struct perf_row *sum)
{
    sum->checked += n;
    if (!memcmp(a, b, n)) return;
    for (uint64_t i = 0; i < n; i++) sum->wrong += a[i] != b[i];
}

int perf_check(struct perf_side *s, const struct perf_place *at, const struct perf_written *w,
               struct perf_row *sum)
{
    uint8_t *got = malloc(at->span), *want = malloc(at->span);
    int err = got && want ? 0 : gw_error_errno(-ENOMEM, "buffers");

    for (uint32_t q = 0; !err && q < s->shape.qps; q++) {
        uint64_t from = w->first ? w->first[q] % at->slots : 0;

        memset(want, 0, at->span);
        for (uint64_t i = 0; i < w->used; i++) {
            uint64_t slot = (from + i) % at->slots;

            perf_fill_pattern(want + slot * at->stride, w->size, w->what, q, slot);
        }
        err = perf_copy_out(s, got, q * at->span, at->span);
        if (!err) perf_fill_compare(got, want, at->span, sum);
    }
    free(got);
    free(want);
    return err;
}

/* The counter of fields after n operations: the lower one has overflowed into nothing. */
static uint64_t fields_after(uint64_t n)
{
    uint32_t high = (uint32_t)(PERF_FIELDS_ADD >> 32) * (uint32_t)n,
             low = (uint32_t)PERF_FIELDS_ADD * (uint32_t)n;

    return (uint64_t)high << 32 | low;
}

static bool fetched_wrong(uint32_t op, uint64_t v, uint64_t used, uint8_t *seen)
{
    if (op == PERF_CMP_SWAP || op == PERF_MASKED_SWAP) return v != 0;
    if (op == PERF_MASKED_ADD) {
        if (fields_after(v >> 32) != v) return true;
        v >>= 32;
    }
    return v >= used || seen[v]++;
}

/* Counters fetched 0, 1, 2, … each once, in whatever order; words that were swapped were 0. */
static void check_words(const uint8_t *got, const struct perf_place *at, uint32_t op, uint64_t used,
                        uint8_t *seen, struct perf_row *sum)
{
    memset(seen, 0, used);
    for (uint64_t i = 0; i < used; i++) {
        uint64_t v;

        memcpy(&v, got + i * at->stride, sizeof(v));
        sum->checked += sizeof(v);
        sum->wrong += fetched_wrong(op, v, used, seen) ? sizeof(v) : 0;
    }
}

int perf_check_fetched(struct perf_side *s, const struct perf_place *at, uint32_t op, uint64_t used,
                       struct perf_row *sum)
{
    uint8_t *got = malloc(at->span), *seen = malloc(used + 1);
    int err = got && seen ? 0 : gw_error_errno(-ENOMEM, "buffers");

    for (uint32_t q = 0; !err && q < s->shape.qps; q++) {
        err = perf_copy_out(s, got, q * at->span, at->span);
        if (!err) check_words(got, at, op, used, seen, sum);
    }
    free(got);
    free(seen);
    return err;
}

int perf_check_target(struct perf_side *s, const struct perf_place *at, uint32_t op, uint64_t used,
                      uint64_t swap, struct perf_row *sum)
{
    uint8_t *got = malloc(at->span), *want = malloc(at->span);
    int err = got && want ? 0 : gw_error_errno(-ENOMEM, "buffers");

    for (uint32_t q = 0; !err && q < s->shape.qps; q++) {
        memset(want, 0, at->span);
        uint64_t counter = op == PERF_MASKED_ADD ? fields_after(used) : used;
        bool swaps = op == PERF_CMP_SWAP || op == PERF_MASKED_SWAP;

        if (!swaps) memcpy(want, &counter, sizeof(counter));
        for (uint64_t i = 0; swaps && i < used; i++) memcpy(want + i * at->stride, &swap, sizeof(swap));
        err = perf_copy_out(s, got, q * at->span, at->span);
        if (!err) perf_fill_compare(got, want, at->span, sum);
    }
    free(got);
    free(want);
    return err;
}
