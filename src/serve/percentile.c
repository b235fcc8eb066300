/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/percentile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int gw_samples_add(struct gw_samples *s, int64_t value)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 1024;
        int64_t *bigger = realloc(s->value, capacity * sizeof(*bigger));
        if (!bigger) return -ENOMEM;
        s->value = bigger;
        s->capacity = capacity;
    }
    s->value[s->count++] = value;
    return 0;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void gw_samples_sort(struct gw_samples *s)
{
    qsort(s->value, s->count, sizeof(*s->value), compare);
}

int64_t gw_samples_percentile(const struct gw_samples *s, double p)
{
    if (!s->count) return 0;
    size_t rank = (size_t)ceil(p / 100.0 * (double)s->count); /* nearest rank, from 1 */
    if (rank < 1) rank = 1;
    if (rank > s->count) rank = s->count;
    return s->value[rank - 1];
}

void gw_samples_free(struct gw_samples *s)
{
    free(s->value);
    s->value = NULL;
    s->count = s->capacity = 0;
}
