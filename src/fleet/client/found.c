/* SPDX-License-Identifier: Apache-2.0 */
/* found.c: the leader's address from etcd. */
#include <stdio.h>
#include <string.h>

#include "src/fleet/client/impl.h"
#include "src/fleet/registry/registry.h"

static void found_leader(void *ctx, const struct fleet_registry_leader *l)
{
    if (l) fleet_leader_found(ctx, l->address); /* none leads: the old one may still answer */
}

static void found_state(void *ctx, bool up, const char *line)
{
    if (!up) fleet_leader_trouble(ctx, line);
}

static void found_synced(void *ctx)
{
    struct fleet_client *c = ctx;
    char why[FLEET_TROUBLE];
    if (c->leader.found[0]) return;
    snprintf(why, sizeof why,
             "etcd knows no leader of the fleet %s: start a controller, or give another name", c->fleet);
    fleet_leader_trouble(c, why);
}

int fleet_found_begin(struct fleet_client *c, const char *etcd)
{
    static const struct fleet_registry_handler handler = {
        .state = found_state, .leader = found_leader, .synced = found_synced};
    const struct fleet_registry_opts opts = {.etcd = etcd, .fleet = c->fleet};
    return fleet_registry_open(c->loop, &opts, &handler, c, &c->leader.registry);
}

void fleet_found_end(struct fleet_client *c)
{
    fleet_registry_close(c->leader.registry);
}
