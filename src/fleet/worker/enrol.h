/* SPDX-License-Identifier: Apache-2.0 */
/* enrol.h: a worker in the fleet's registry. Its entry is there while it lives, and the agent goes to the
 * leader that the registry names. The loop's thread calls all of it. */
#ifndef GW_FLEET_WORKER_ENROL_H
#define GW_FLEET_WORKER_ENROL_H

#include "src/fleet/registry/registry.h"
#include "src/fleet/worker/agent.h"

struct fleet_enrol;

struct fleet_enrol_opts {
    struct fleet_loop *loop;
    struct fleet_agent *agent; /* outlives the entry */
    const char *name;          /* the worker's, as the agent has it */
    const struct fleet_registry_opts *registry;
    void (*say)(void *ctx, const char *line); /* for the log; NULL: no one reads it */
    void *ctx;
};

/* Begins; it connects in the background, and registers again when etcd has lost the entry. As
 * fleet_registry_open. */
int fleet_enrol_open(const struct fleet_enrol_opts *opts, struct fleet_enrol **out);
/* Takes the entry back. NULL is allowed. */
void fleet_enrol_close(struct fleet_enrol *e);

#endif
