/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts records of 100 bytes by their keys of 10; equal keys by the rest, so that the result is one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "baseline.h"

enum { BATCH = 4096 }; /* records that a thread takes at a time */

struct records {
    const struct work *w;
    struct item *item;
    uint64_t n;
    uint64_t *first; /* of each input: its first record's number; and at the end their sum */
    uint8_t *out;
};

static void records_read(void *arg, uint64_t batch)
{
    struct records *s = (struct records *)arg;
    uint64_t i = batch * BATCH, end = i + BATCH < s->n ? i + BATCH : s->n;
    uint32_t file = 0;

    for (; i < end; i++) {
        uint64_t head;

        while (i >= s->first[file + 1]) file++;
        s->item[i].bytes = s->w->input[file].bytes + (i - s->first[file]) * MR_RECORD;
        memcpy(&head, s->item[i].bytes, sizeof(head));
        s->item[i].key = __builtin_bswap64(head);
    }
}

static bool record_less(const struct item *a, const struct item *b)
{
    return memcmp(a->bytes + 8, b->bytes + 8, MR_RECORD - 8) < 0;
}

static void records_gather(void *arg, uint64_t batch)
{
    struct records *s = (struct records *)arg;
    uint64_t i = batch * BATCH, end = i + BATCH < s->n ? i + BATCH : s->n;

    for (; i < end; i++) {
        if (i + 8 < end) __builtin_prefetch(s->item[i + 8].bytes);
        memcpy(s->out + i * MR_RECORD, s->item[i].bytes, MR_RECORD);
    }
}

static int records_run(struct records *s)
{
    uint64_t batches;
    int err;

    s->first = (uint64_t *)calloc(s->w->inputs + 2, sizeof(*s->first));
    if (!s->first) return gw_error(-ENOMEM, "no memory for %u files", s->w->inputs);
    for (uint32_t i = 0; i < s->w->inputs; i++) {
        const struct input *in = &s->w->input[i];

        if (in->size % MR_RECORD)
            return gw_error(-EINVAL, "%s: must be records of %d bytes", in->name, MR_RECORD);
        s->first[i + 1] = s->first[i] + in->size / MR_RECORD;
    }
    s->n = s->first[s->w->inputs];
    s->item = (struct item *)malloc((s->n + 1) * sizeof(*s->item));
    s->out = (uint8_t *)malloc((s->n + 1) * MR_RECORD);
    if (!s->item || !s->out) return gw_error(-ENOMEM, "no memory for the records");
    batches = (s->n + BATCH - 1) / BATCH;
    parallel(s->w, batches, records_read, s);
    if ((err = items_sort(s->w, s->item, s->n, record_less))) return err;
    parallel(s->w, batches, records_gather, s);
    if (fwrite(s->out, MR_RECORD, s->n, s->w->out) != s->n) return gw_error_errno(-errno, "the result");
    return 0;
}

int records_sort(const struct work *w)
{
    struct records s = {.w = w};
    int err = records_run(&s);

    free(s.first);
    free(s.item);
    free(s.out);
    return err;
}
