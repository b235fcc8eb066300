/* SPDX-License-Identifier: Apache-2.0 */
/* baseline.h: what the parts of the baseline share: see baseline.c. */
#ifndef GW_BENCH_FLEET_BASELINE_H
#define GW_BENCH_FLEET_BASELINE_H

#include "src/fleet/wire/conn.h"
#include "src/fleet/worker/profile.h"

#define BASELINE_MS     INT64_C(1000000)
#define BASELINE_SECOND INT64_C(1000000000)
#define BASELINE_NEVER  (3600 * BASELINE_SECOND) /* the deadline of a request that has none */

enum {
    BASELINE_BACKLOG = 1 << 30,   /* bytes that may wait for a peer */
    BASELINE_REQUESTS = 16 << 10, /* that a controller or a client has open */
};

struct baseline_opts {
    const char *mode;       /* controller, workers or load */
    const char *controller; /* "HOST:PORT": where it is, or where it listens */
    const char *fleet;      /* of `load`: requests go to gpuwire's controller of this address instead */
    const char *trace;      /* of `load`: when requests come, and for which model; NULL: the rate */
    uint32_t workers, models;
    uint32_t pages; /* of a worker's GPU */
    uint32_t rate;  /* requests a second */
    uint32_t flying;
    uint32_t warm_ms, run_ms, deadline_ms;
    uint32_t ahead_us, hop_us; /* see central.h */
    struct fleet_profile profile;
};

/* How every connection is made. */
struct fleet_conn_opts baseline_conn(uint8_t role, uint32_t peers, const uint8_t *id);

/* Each runs until it is ended, `load` until it is done. The exit status. */
int baseline_control(const struct baseline_opts *o);
int baseline_workers(const struct baseline_opts *o);
int baseline_load(const struct baseline_opts *o);

#endif
