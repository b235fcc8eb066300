/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of times, kept to three digits: numbers below 2048 by themselves, larger ones within 0.1 %, in steps
 * that grow with them. So memory does not grow with the samples, and histograms can be added. */
#ifndef GW_CLI_HISTOGRAM_H
#define GW_CLI_HISTOGRAM_H

#include <stdint.h>

#define GW_HISTOGRAM_BITS  11 /* the first 2^11 numbers have a counter each, then 2^10 for each doubling */
#define GW_HISTOGRAM_MAX   ((UINT64_C(1) << 42) - 1) /* ns: over an hour. Larger ones count as this */
#define GW_HISTOGRAM_CELLS ((42 - GW_HISTOGRAM_BITS + 2) << (GW_HISTOGRAM_BITS - 1))

/* All zero is an empty one. */
struct gw_histogram {
    uint64_t count, least, most; /* least and most are exact; 0 when it is empty */
    double sum;
    uint64_t cell[GW_HISTOGRAM_CELLS];
};

/* Counts a value; what is below 0 counts as 0. */
void gw_histogram_add(struct gw_histogram *h, int64_t value);
/* Adds all that `from` has counted. */
void gw_histogram_merge(struct gw_histogram *to, const struct gw_histogram *from);
void gw_histogram_clear(struct gw_histogram *h);
/* A value that at least `p` percent of all are not above, to three digits: the nearest rank. p = 100 is
 * exactly the largest. 0: it is empty. */
uint64_t gw_histogram_percentile(const struct gw_histogram *h, double p);
/* The mean; 0: it is empty. */
double gw_histogram_mean(const struct gw_histogram *h);

#endif
