/* SPDX-License-Identifier: Apache-2.0 */
/* Samples kept whole, so that every percentile is exact. */
#ifndef GW_SERVE_PERCENTILE_H
#define GW_SERVE_PERCENTILE_H

#include <stddef.h>
#include <stdint.h>

struct gw_samples {
    int64_t *value; /* nanoseconds */
    size_t count, capacity;
};

int gw_samples_add(struct gw_samples *s, int64_t value); /* 0 or -ENOMEM */
void gw_samples_sort(struct gw_samples *s);
/* The smallest sample that at least `p` percent of all are not above; 0 when there is none. Sort first. */
int64_t gw_samples_percentile(const struct gw_samples *s, double p);
void gw_samples_free(struct gw_samples *s);

#endif
