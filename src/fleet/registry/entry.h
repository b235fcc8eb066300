/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of the registry's entries. What etcd holds may come from anyone. */
#ifndef GW_FLEET_REGISTRY_ENTRY_H
#define GW_FLEET_REGISTRY_ENTRY_H

#include "src/fleet/etcd/etcd.h"
#include "src/fleet/registry/registry.h"

enum fleet_entry_kind {
    FLEET_ENTRY_OTHER, /* of another version, say */
    FLEET_ENTRY_LEADER,
    FLEET_ENTRY_WORKER,
    FLEET_ENTRY_MODEL,
    FLEET_ENTRY_PLACE,
    FLEET_ENTRY_DRAIN
};

enum {
    FLEET_ENTRY_KEY = 1024,      /* bytes of a key: each of a name's becomes three at most */
    FLEET_ENTRY_VALUE = 4 << 10, /* of a value that we write */
    FLEET_ENTRY_MAX = 64 << 10,  /* of one that we read */
};

/* Whose entry a key is. A place has the worker in `name`, and a model too. */
struct fleet_entry_name {
    enum fleet_entry_kind kind;
    char name[FLEET_MODEL], model[FLEET_MODEL];
};

/* "gpuwire/FLEET/": what all keys of a fleet begin with. -EINVAL: it is no name. */
int fleet_entry_prefix(const char *fleet, char to[FLEET_ENTRY_KEY]);
/* The key of an entry; -EINVAL: a name that is none. `model` is NULL but of a place. */
int fleet_entry_key(const char *prefix, enum fleet_entry_kind kind, const char *name, const char *model,
                    char to[FLEET_ENTRY_KEY]);
/* The other way round. False: it has no such form. */
bool fleet_entry_parse_key(const char *prefix, struct fleet_etcd_bytes key, struct fleet_entry_name *to);

/* Writes a value: its bytes, or -EINVAL. */
int fleet_entry_put_leader(const struct fleet_registry_leader *l, char to[FLEET_ENTRY_VALUE]);
int fleet_entry_put_worker(const struct fleet_registry_worker *w, char to[FLEET_ENTRY_VALUE]);
int fleet_entry_put_model(const struct fleet_registry_model *m, char to[FLEET_ENTRY_VALUE]);
int fleet_entry_put_place(const struct fleet_registry_place *p, char to[FLEET_ENTRY_VALUE]);
int fleet_entry_put_drain(const struct fleet_registry_drain *d, char to[FLEET_ENTRY_VALUE]);

/* Reads one: all but the names that the key has. NULL: it is good; otherwise what is wrong with it. */
const char *fleet_entry_get_leader(struct fleet_etcd_bytes value, struct fleet_registry_leader *l);
const char *fleet_entry_get_worker(struct fleet_etcd_bytes value, struct fleet_registry_worker *w);
const char *fleet_entry_get_model(struct fleet_etcd_bytes value, struct fleet_registry_model *m);
const char *fleet_entry_get_place(struct fleet_etcd_bytes value, struct fleet_registry_place *p);
const char *fleet_entry_get_drain(struct fleet_etcd_bytes value, struct fleet_registry_drain *d);

#endif
