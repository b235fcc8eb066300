/* SPDX-License-Identifier: Apache-2.0 */
/* enrol.c: keeps a worker's entry in the registry, and tells its agent who leads. */
#include "src/fleet/worker/enrol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

struct fleet_enrol {
    struct fleet_enrol_opts o;
    struct fleet_registry *registry;
    bool registered;
};

static void enrol_say(void *ctx, const char *line)
{
    const struct fleet_enrol *e = ctx;
    if (e->o.say) e->o.say(e->o.ctx, line);
}

static void enrol_state(void *ctx, bool up, const char *line)
{
    (void)up;
    enrol_say(ctx, line);
}

/* Without a leader the agent stays where it is: its controller may not know yet, or come back. */
static void enrol_leader(void *ctx, const struct fleet_registry_leader *l)
{
    struct fleet_enrol *e = ctx;
    fleet_agent_leader(e->o.agent, l ? l->address : "", l ? l->term : 0);
}

static void enrol_registered(void *ctx, bool is)
{
    struct fleet_enrol *e = ctx;
    char line[FLEET_NAME + 80];
    if (is == e->registered) return;
    e->registered = is;
    snprintf(line, sizeof(line), "worker %s: %s", e->o.name,
             is ? "its entry is in the registry"
                : "its entry has gone from the registry; it will be put again");
    enrol_say(e, line);
}

static const struct fleet_registry_handler enrol_handler = {
    .state = enrol_state, .trouble = enrol_say, .leader = enrol_leader, .registered = enrol_registered};

int fleet_enrol_open(const struct fleet_enrol_opts *opts, struct fleet_enrol **out)
{
    struct fleet_registry_worker w = {0};
    struct fleet_agent_view v;
    struct fleet_enrol *e = calloc(1, sizeof(*e));
    if (!e) return gw_error(-ENOMEM, "no memory for an entry of the registry");
    e->o = *opts;
    fleet_agent_view(opts->agent, &v);
    memcpy(w.id, v.id, sizeof(w.id));
    memcpy(w.address, v.address, sizeof(w.address));
    snprintf(w.name, sizeof(w.name), "%s", opts->name);
    w.gpu_pages = v.facts.gpu_pages;
    w.host_pages = v.facts.host_pages;
    w.slots = v.facts.slots;
    w.emulated = v.facts.emulated;
    int err = fleet_registry_open(opts->loop, opts->registry, &enrol_handler, e, &e->registry);
    if (!err) err = fleet_registry_register(e->registry, &w);
    if (err) {
        fleet_enrol_close(e);
        return err;
    }
    *out = e;
    return 0;
}

void fleet_enrol_close(struct fleet_enrol *e)
{
    if (!e) return;
    if (e->registry) fleet_registry_unregister(e->registry);
    fleet_registry_close(e->registry);
    free(e);
}
