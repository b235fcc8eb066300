/* SPDX-License-Identifier: Apache-2.0 */
/* A lease of etcd that is kept alive at a third of its time, and taken again when it has ended. */
#ifndef GW_FLEET_ETCD_LEASE_H
#define GW_FLEET_ETCD_LEASE_H

#include "src/fleet/etcd/etcd.h"

struct fleet_etcd_lease;

struct fleet_etcd_lease_handler {
    /* There is a lease; after the first one, because the one before had ended. */
    void (*granted)(void *ctx, int64_t lease);
    /* etcd has renewed it. NULL is allowed. */
    void (*renewed)(void *ctx);
    /* etcd says that it has ended. Another one is asked for. */
    void (*ended)(void *ctx, int64_t lease);
    /* etcd gives none, for a reason that time alone does not mend. It is asked again, and this comes once.
     * NULL is allowed. */
    void (*refused)(void *ctx, const char *why);
};

/* Of ttl_s seconds, or what etcd makes of it. -ENOMEM. */
int fleet_etcd_lease_open(struct fleet_etcd *e, int64_t ttl_s, const struct fleet_etcd_lease_handler *handler,
                          void *ctx, struct fleet_etcd_lease **out);
/* Revokes it. NULL is allowed. Not from inside its handler. */
void fleet_etcd_lease_close(struct fleet_etcd_lease *l);

/* 0: there is none now. */
int64_t fleet_etcd_lease_id(const struct fleet_etcd_lease *l);
/* etcd does not end it before (CLOCK_MONOTONIC): its time, from when the last renewal that succeeded was
 * sent. 0: there is none. */
int64_t fleet_etcd_lease_until(const struct fleet_etcd_lease *l);

#endif
