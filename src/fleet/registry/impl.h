/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the registry: what watches (registry.c), a controller's part (leader.c), a worker's (enlist.c). */
#ifndef GW_FLEET_REGISTRY_IMPL_H
#define GW_FLEET_REGISTRY_IMPL_H

#include "src/fleet/etcd/election.h"
#include "src/fleet/etcd/lease.h"
#include "src/fleet/etcd/mirror.h"
#include "src/fleet/registry/entry.h"
#include "src/fleet/registry/known.h"

/* A worker's entry, while it is registered. */
struct fleet_registry_entry {
    bool is_wanted;
    struct fleet_registry_worker worker;
    char key[FLEET_ENTRY_KEY], text[FLEET_ENTRY_VALUE];
    struct fleet_etcd_lease *lease; /* NULL: not registered */
    struct fleet_etcd_mirror *mirror;
    struct fleet_etcd_call *call;
    struct fleet_timer again;
    int64_t lease_id;
    int64_t mod;     /* of the entry that is there; 0: there is none */
    bool is_read;    /* whether there is one is known */
    bool is_foreign; /* another life has it */
    bool is_there;   /* ours is there, as it shall be */
    bool was_told;   /* that another life has the name */
};

struct fleet_registry {
    struct fleet_loop *loop;
    struct fleet_etcd *etcd;
    struct fleet_registry_handler handler;
    void *ctx;
    char prefix[FLEET_ENTRY_KEY];
    struct fleet_etcd_mirror *mirror;
    struct fleet_known known;
    struct fleet_timer later;
    int64_t leader_ttl_s, worker_ttl_s;

    bool campaigns;
    struct fleet_registry_leader me;
    struct fleet_etcd_election *election;

    struct fleet_registry_entry entry;
};

void fleet_registry_trouble(struct fleet_registry *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Has fleet_registry_leader_settle and fleet_registry_worker_settle called soon: handlers must not close what
 * calls them. */
void fleet_registry_settle(struct fleet_registry *r);

/* ---- leader.c: ends a campaign that was given up, and begins one that was asked for since. */
void fleet_registry_leader_settle(struct fleet_registry *r);

/* ---- enlist.c: the same of a registration. */
void fleet_registry_worker_settle(struct fleet_registry *r);

#endif
