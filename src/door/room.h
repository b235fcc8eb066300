/* SPDX-License-Identifier: Apache-2.0 */
/* Room for bodies that are being received, shared out among clients. A client may take as much as it leaves
 * free: alone half of all, and beside n others, who take what they may, an (n+2)th part. So there is always
 * some left for one that comes. */
#ifndef GW_DOOR_ROOM_H
#define GW_DOOR_ROOM_H

#include <pthread.h>
#include <stdint.h>

struct gw_room_client;

struct gw_room {
    pthread_mutex_t lock; /* held for a few instructions */
    uint64_t all, held;   /* bytes */
    struct gw_room_client *first;
};

void gw_room_open(struct gw_room *r, uint64_t all);
void gw_room_close(struct gw_room *r);

/* For that client. 0; -EAGAIN: there is no room for it now; -ENOMEM. */
int gw_room_take(struct gw_room *r, const char *who, uint64_t bytes);
/* Of what it has taken. */
void gw_room_give(struct gw_room *r, const char *who, uint64_t bytes);

#endif
