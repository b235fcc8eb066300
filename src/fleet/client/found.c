/* SPDX-License-Identifier: Apache-2.0 */
/* found.c: the leader's address from etcd. */
#include <string.h>

#include "src/fleet/client/impl.h"
#include "src/fleet/registry/registry.h"

static void found_leader(void *ctx, const struct fleet_registry_leader *l)
{
    if (l) fleet_leader_found(ctx, l->address); /* none leads: the old one may still answer */
}

int fleet_found_begin(struct fleet_client *c, const char *etcd)
{
    static const struct fleet_registry_handler handler = {.leader = found_leader};
    const struct fleet_registry_opts opts = {.etcd = etcd, .fleet = c->fleet};
    return fleet_registry_open(c->loop, &opts, &handler, c, &c->leader.registry);
}

void fleet_found_end(struct fleet_client *c)
{
    fleet_registry_close(c->leader.registry);
}
