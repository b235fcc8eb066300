/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog.h: the models that the fleet has, as a router knows them. A client's request for any other name
 * goes no further than this: strangers cannot make the router ask for models that there are not.
 *
 * Any thread may call all of it. A model that was listed once stays in memory as long as the catalog, as it
 * does in the fleet's client. One that is not listed any more is not found any more.
 */
#ifndef GW_FLEET_ROUTER_CATALOG_H
#define GW_FLEET_ROUTER_CATALOG_H

#include <pthread.h>
#include <stdbool.h>

#include "src/fleet/client/fleet_client.h"
#include "src/fleet/router/metadata.h"
#include "src/server/requests/backend.h"

struct fleet_catalog_model {
    char name[FLEET_MODEL];
    unsigned version; /* under the catalog's lock, as the next two; 0: not known */
    bool listed, described;
    int64_t seen_at;                   /* in a list */
    struct fleet_client_model *client; /* once it is described */
    struct fleet_metadata metadata;    /* once `described` was seen to be true, it stays as it is */
    pthread_mutex_t lock;              /* of the rest */
    struct gw_infer_stats stats;
};

struct fleet_catalog {
    pthread_mutex_t lock;
    struct fleet_client *client;
    struct fleet_catalog_model **all, **served; /* by name; in the order of the list */
    size_t count, room, serving;
    bool known; /* a list has come */
};

int fleet_catalog_open(struct fleet_catalog *c, struct fleet_client *client);
/* When the client is closed. */
void fleet_catalog_close(struct fleet_catalog *c);

/* A model of a list that has come. */
struct fleet_catalog_item {
    const char *name;
    unsigned version; /* 0: not known */
};
#define FLEET_CATALOG_GRACE_NS 30000000000 /* in which a model that is not listed any more is found */

/* These models are there at that time. Others stay for the grace: a worker may be on its way to another
 * controller. 0; -ENOMEM: the list stays as it was. Names that no model can have are skipped. */
int fleet_catalog_set(struct fleet_catalog *c, const struct fleet_catalog_item *list, size_t n, int64_t now);
bool fleet_catalog_is_known(struct fleet_catalog *c);

/* The model of that name, described: so it may wait for a worker. 0, or -1 with *error. */
int fleet_catalog_find(struct fleet_catalog *c, const char *name, struct fleet_catalog_model **out,
                       struct gw_infer_error *error);
/* The i-th that is listed, its version, and whether it is described; NULL: there are fewer. */
struct fleet_catalog_model *fleet_catalog_at(struct fleet_catalog *c, size_t i, unsigned *version,
                                             bool *described);

#endif
