/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that the handler was told of, so that it hears of those that are not there any more. */
#ifndef GW_FLEET_REGISTRY_KNOWN_H
#define GW_FLEET_REGISTRY_KNOWN_H

#include "src/fleet/etcd/etcd.h"

struct fleet_known {
    struct fleet_known_key **slot; /* chains */
    size_t slots, keys;
    uint32_t round; /* of reading all */
};

/* It was seen in this round. 0 or -ENOMEM. */
int fleet_known_add(struct fleet_known *k, struct fleet_etcd_bytes key);
/* True: it was there. */
bool fleet_known_drop(struct fleet_known *k, struct fleet_etcd_bytes key);
/* From now on, what was not added is old. */
void fleet_known_next_round(struct fleet_known *k);
/* Drops each key that is old, and says so. f does not call anything here. */
void fleet_known_sweep(struct fleet_known *k, void (*f)(void *ctx, struct fleet_etcd_bytes key), void *ctx);
void fleet_known_free(struct fleet_known *k);

#endif
