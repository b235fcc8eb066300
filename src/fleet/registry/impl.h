/* SPDX-License-Identifier: Apache-2.0 */
/* The registry's insides: what it watches, a controller's part, a worker's part. */
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
    int64_t mod;      /* of the entry that is there; 0: there is none */
    bool is_read;     /* whether there is one is known */
    bool is_foreign;  /* another life has it */
    bool is_there;    /* ours is there, as it shall be */
    bool was_told;    /* that another life has the name */
    bool was_refused; /* and that was told */
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
    void (*settle)(void *registry); /* ends and begins what was asked for since */
    int64_t leader_ttl_s, worker_ttl_s;

    bool campaigns, resigns; /* resigns: the election is to be closed */
    struct fleet_registry_leader me;
    struct fleet_etcd_election *election;

    struct fleet_registry_entry entry;
};

#endif
