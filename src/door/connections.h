/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of the HTTP server: how many there may be, of each client and in all, and how long one
 * may stay without having a call answered. It knows sockets, and no HTTP. Any thread may call all of it. */
#ifndef GW_DOOR_CONNECTIONS_H
#define GW_DOOR_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/limit.h"
#include "src/door/proxies.h"
#include "src/door/who.h"

struct gw_visitor {
    struct gw_visitor *next, **link;
    const void *connection; /* the caller's name for it */
    int fd;
    uint64_t since;           /* when it came, or its last call was answered */
    int busy;                 /* atomic */
    int is_proxy;             /* it may speak for others */
    int turned_away, crowded; /* 1: it is only told why: there are too many of its client, or of all */
    char who[GW_WHO_TEXT];
};

struct gw_door {
    pthread_mutex_t lock;
    struct gw_visitor *first;
    uint32_t count, most, max_each;
    uint32_t turned_away;      /* connections beyond these, which are told so */
    struct gw_proxies proxies; /* set before the first one comes */
    const char *option;        /* that sets max_each, for messages; NULL: none does */
    uint64_t patience_ns;
    struct gw_say_limit said;
};

/* `most` connections in all, `max_each` of one client; of a proxy three quarters of `most`. */
void gw_door_open(struct gw_door *d, uint32_t most, uint32_t max_each, uint64_t patience_ns);
void gw_door_close(struct gw_door *d);

/* Is there room for one more? */
int gw_door_has_room(struct gw_door *d);
/* Is there room for one that is only told that there is none? */
int gw_door_can_tell(struct gw_door *d);
/* A connection has come in. NULL when its client has too many already or has gone, or without memory: then
 * it is to be cut. */
struct gw_visitor *gw_door_enter(struct gw_door *d, int fd, const void *connection);
/* For a connection that gw_door_enter did not take: one that is only told why. NULL: its client has gone, or
 * too many are being told. It may stay for a tenth of the patience. */
struct gw_visitor *gw_door_turn_away(struct gw_door *d, int fd, const void *connection);
/* Why, for people: up to `room` bytes. */
void gw_door_reason(const struct gw_door *d, const struct gw_visitor *v, char *why, size_t room);
/* Is its client a user of this host that has the connection open at this moment? (gw_who_is_here) */
bool gw_door_is_here(const struct gw_visitor *v);
/* It has gone; its descriptor is closed only afterwards. NULL is allowed. */
void gw_door_leave(struct gw_door *d, struct gw_visitor *v);
/* One of its calls was answered: it may stay that much longer. NULL is allowed. */
void gw_door_served(struct gw_door *d, struct gw_visitor *v);
/* Its call is being worked on: the time that passes is not the client's. Without any lock. */
void gw_door_busy(struct gw_visitor *v, int busy);
/* Cuts the connections that have stayed too long, but for those that `stays` (which must not call back)
 * vouches for. When three quarters of the places are taken, no client may stay longer than a tenth of the
 * time. Returns how many it cut. */
uint32_t gw_door_sweep(struct gw_door *d, bool (*stays)(void *ctx, const void *connection), void *ctx);

#endif
