/* SPDX-License-Identifier: Apache-2.0 */
/* The load of `gpuwire fleet demo`: requests at random times, counted by what had happened before. */
#ifndef GW_CLI_FLEET_DEMO_LOAD_H
#define GW_CLI_FLEET_DEMO_LOAD_H

#include <stdint.h>

#include "src/cli/histogram.h"

/* What has happened; requests before the first are not counted. */
enum gw_demo_phase { DEMO_START, DEMO_STEADY, DEMO_WORKER, DEMO_LEADER, DEMO_ETCD, DEMO_BACK, DEMO_PHASES };

struct gw_demo_load_opts {
    const char *etcd, *profile;
    uint32_t models;
    double rate; /* requests a second, of all models together */
    int64_t deadline_ns;
};

struct gw_demo_count {
    uint64_t requests, kept, late, refused, lost;
    int64_t recovery_ns; /* from the phase's beginning to the last fifth of a second that lost more than a
                          * tenth; 0: there was none */
    struct gw_histogram time; /* of answers */
};

struct gw_demo_load;

/* Begins. 0, or a negative errno with gw_last_error(). */
int gw_demo_load_begin(const struct gw_demo_load_opts *o, struct gw_demo_load **out);
/* What is sent from now on belongs to this phase. */
void gw_demo_load_phase(struct gw_demo_load *l, enum gw_demo_phase phase);
/* Of the requests of the last second that have ended, how many percent were in time; -1: there are none. */
double gw_demo_load_kept(struct gw_demo_load *l);
/* Sends no more, and waits for what is under way. */
void gw_demo_load_end(struct gw_demo_load *l);
/* After gw_demo_load_end. */
const struct gw_demo_count *gw_demo_load_count(const struct gw_demo_load *l, enum gw_demo_phase phase);
void gw_demo_load_free(struct gw_demo_load *l); /* NULL is allowed */

#endif
