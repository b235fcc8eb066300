/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services.h: what the control plane and the data plane of the balancer share.
 *
 * The control plane publishes the whole configuration, as a struct bal_config. One pointer is exchanged: the
 * cores see the old one or the new one, and no mixture. When each core has left the old one
 * (bal_generation_seen), it is freed. Loads of workers change many times a second, and are written in place.
 * The cores write their counters in place, too.
 *
 *     bal_create(&attr, &bal);
 *     bal_publish(bal, &config, error, sizeof(error));         // as often as something changes
 *     bal_telemetry(bal, worker, &t);                          // at any time
 *     bal_worker_live(bal, worker);                            // a draining worker with 0 may go
 *     gw_balance_run(bal, &run, error, sizeof(error));         // run.h; a thread of its own, until bal->stop
 *
 * One thread at a time publishes. All else here may be called from any thread.
 * Functions return 0 or a negative errno, unless they say otherwise.
 */
#ifndef GW_SRC_BALANCE_SERVICES_H
#define GW_SRC_BALANCE_SERVICES_H

#include "src/balance/counts.h"
#include "src/balance/objects.h"
#include "src/balance/record.h"

struct bal; /* the balancer: balance.h has what the data plane sees of it */

/* -EINVAL: bal_check_attr (check.h) says why. -ENOMEM. */
int bal_create(const struct bal_attr *attr, struct bal **out);
void bal_destroy(struct bal *bal); /* no core may run any more; NULL is allowed */

/*
 * Checks a configuration, makes what lookups need of it, and lets all cores see it. A later call, or
 * bal_destroy, frees the old one. `error` gets one line when it is refused: what, on what, what to do.
 * -EINVAL: bal_check_config (check.h) finds what cannot run. -ENOMEM.
 */
int bal_publish(struct bal *bal, const struct bal_config *config, char *error, size_t size);
/* Counts the publications. `seen`: each core that has run since looks at this one or a later one. */
uint64_t bal_generation(const struct bal *bal);
uint64_t bal_generation_seen(const struct bal *bal);

/* Ends gw_balance_run within some milliseconds. May be called in a signal handler. */
void bal_stop(struct bal *bal);

/* Telemetry is written by the control plane, and read when a flow is opened. `now_ns`: CLOCK_MONOTONIC. */
void bal_telemetry(struct bal *bal, uint32_t worker, const struct bal_load *load, uint64_t now_ns);

#endif
