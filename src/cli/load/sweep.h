/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of load that are tried one after the other, and when a level has become steady. */
#ifndef GW_LOAD_SWEEP_H
#define GW_LOAD_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#define GW_SWEEP_LEVELS 1000
#define GW_WINDOWS      3 /* that must agree */

struct gw_sweep {
    double from, to, step;
    int multiply; /* 1: each level is `step` times the one before */
};

/* FROM, FROM:TO, FROM:TO:STEP or FROM:TO:2x (a factor). All numbers are positive, from `least` up to `most`;
 * `whole`: without a fraction. 0 or -EINVAL. */
int gw_sweep_parse(const char *text, double least, double most, int whole, struct gw_sweep *s);
/* The next level; the first for 0. 0: there is none. */
double gw_sweep_next(const struct gw_sweep *s, double level);

/* The last windows of a level. */
struct gw_steady {
    double rate[GW_WINDOWS], latency[GW_WINDOWS];
    uint32_t windows; /* the number of windows */
};
void gw_steady_add(struct gw_steady *s, double rate, double latency);
/* Do rate and latency of the last GW_WINDOWS windows lie within `percent` of their means? */
bool gw_steady_is(const struct gw_steady *s, double percent);

#endif
