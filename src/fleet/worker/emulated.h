/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulated.h: an engine that computes nothing. It has one "GPU", which runs one batch at a time, and takes
 * the time that was measured of a real one. Requests are admitted, queued and batched by the device's rules
 * (src/server/device), pages are counted, and a LOAD takes its time. Answers are zeros.
 *
 * An engine runs on its loop's thread, by the loop's timers, and calls each `done` there. A thousand of them
 * may share one loop and one zoo.
 */
#ifndef GW_FLEET_WORKER_EMULATED_H
#define GW_FLEET_WORKER_EMULATED_H

#include "src/fleet/wire/conn.h"
#include "src/fleet/worker/engine.h"
#include "src/fleet/worker/profile.h"

/* The models that workers emulate. It does not change once it is made; any thread may read it. */
struct fleet_zoo;

/* `models` models, all of one profile. -ENOMEM. */
int fleet_zoo_create(uint32_t models, const struct fleet_profile *profile, struct fleet_zoo **out);
/* After the engines. NULL is allowed. */
void fleet_zoo_destroy(struct fleet_zoo *z);

struct fleet_emulated_opts {
    struct fleet_loop *loop;
    const struct fleet_zoo *zoo;
    uint32_t gpu_pages, host_pages;
    uint32_t slots, leases; /* as in struct fleet_hello_worker */
    bool cold;              /* models are on disk at first; else in host memory, as far as they fit there */
    double slow;            /* a batch takes this times what the profile says; 0: 1 */
    uint64_t seed;          /* of durations; 0: 1 */
};

/* -EINVAL: no pages, slots or leases; -ENOMEM. */
int fleet_emulated_create(const struct fleet_emulated_opts *opts, struct fleet_engine **out);

#endif
