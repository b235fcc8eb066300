/* SPDX-License-Identifier: Apache-2.0 */
/* When requests are to be sent at a given rate, whether or not earlier ones were answered. */
#ifndef GW_LOAD_ARRIVALS_H
#define GW_LOAD_ARRIVALS_H

#include <stdint.h>

struct gw_arrivals {
    uint64_t state; /* of the generator: the same seed gives the same times */
    double gap_ns;  /* between two, on average */
    double next_ns; /* of the next one, on CLOCK_MONOTONIC */
    int constant;   /* 1: all gaps are alike; 0: a Poisson process */
};

/* Begins at `start_ns`. With several clients each has its share of the rate and a seed of its own: together
 * they are a Poisson process again. `phase`, 0 to 1, is where in its first gap a constant one begins. */
void gw_arrivals_begin(struct gw_arrivals *a, uint64_t start_ns, double rate, uint64_t seed, double phase);
/* The next time, and goes on to the one after it. */
uint64_t gw_arrivals_take(struct gw_arrivals *a);

#endif
