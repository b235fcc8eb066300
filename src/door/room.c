/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the memory for arriving bodies among the clients. */
#include "src/door/room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "src/door/who.h"

struct gw_room_client {
    struct gw_room_client *next;
    uint64_t held;
    char who[GW_WHO_TEXT];
};

void gw_room_open(struct gw_room *r, uint64_t all)
{
    *r = (struct gw_room){.all = all};
    pthread_mutex_init(&r->lock, NULL);
}

void gw_room_close(struct gw_room *r)
{
    pthread_mutex_destroy(&r->lock);
}

static struct gw_room_client **http_room_find(struct gw_room *r, const char *who)
{
    GW_ASSERT_HELD(&r->lock);
    struct gw_room_client **at = &r->first;
    while (*at && strcmp((*at)->who, who)) at = &(*at)->next;
    return at;
}

static int http_room_add(struct gw_room *r, const char *who, uint64_t bytes)
{
    struct gw_room_client **at = http_room_find(r, who), *c = *at;
    uint64_t own = c ? c->held : 0, left = r->all - r->held;
    if (bytes > left || own + bytes > left - bytes) return -EAGAIN;
    if (!c) {
        c = calloc(1, sizeof(*c));
        if (!c) return -ENOMEM;
        snprintf(c->who, sizeof(c->who), "%s", who);
        *at = c;
    }
    c->held += bytes;
    r->held += bytes;
    return 0;
}

int gw_room_take(struct gw_room *r, const char *who, uint64_t bytes)
{
    if (!bytes) return 0;
    pthread_mutex_lock(&r->lock);
    int err = http_room_add(r, who, bytes);
    pthread_mutex_unlock(&r->lock);
    return err;
}

void gw_room_give(struct gw_room *r, const char *who, uint64_t bytes)
{
    if (!bytes) return;
    pthread_mutex_lock(&r->lock);
    struct gw_room_client **at = http_room_find(r, who), *c = *at;
    GW_ASSERT(c && c->held >= bytes && r->held >= c->held);
    c->held -= bytes;
    r->held -= bytes;
    if (!c->held) {
        *at = c->next;
        free(c);
    }
    pthread_mutex_unlock(&r->lock);
}
