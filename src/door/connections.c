/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the connections of the HTTP server, and ends those that have idled too long. */
#include "src/door/connections.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gpuwire/exec.h>
#include <gpuwire/detail/assert.h>

#define CROWDED_FACTOR 10
#define TOLD           128u /* connections that are only told why they are turned away, */
#define TOLD_EACH      64u  /* and of one client */

void gw_door_open(struct gw_door *d, uint32_t most, uint32_t max_each, uint64_t patience_ns)
{
    *d = (struct gw_door){.most = most, .max_each = max_each, .patience_ns = patience_ns};
    pthread_mutex_init(&d->lock, NULL);
}

void gw_door_close(struct gw_door *d)
{
    pthread_mutex_destroy(&d->lock);
}

int gw_door_has_room(struct gw_door *d)
{
    pthread_mutex_lock(&d->lock);
    int room = d->count < d->most;
    pthread_mutex_unlock(&d->lock);
    if (!room)
        gw_say(&d->said, "%u connections are open: new ones are closed until some have ended", d->most);
    return room;
}

static uint32_t count_of(const struct gw_door *d, const struct gw_visitor *like)
{
    uint32_t n = 0;
    for (const struct gw_visitor *v = d->first; v; v = v->next)
        n += v->turned_away == like->turned_away && !strcmp(v->who, like->who);
    return n;
}

int gw_door_can_tell(struct gw_door *d)
{
    pthread_mutex_lock(&d->lock);
    int can = d->turned_away < TOLD;
    pthread_mutex_unlock(&d->lock);
    return can;
}

static uint32_t most_of(const struct gw_door *d, const struct gw_visitor *v)
{
    return v->is_proxy ? d->most - d->most / 4 : d->max_each;
}

static int connections_put(struct gw_door *d, struct gw_visitor *v)
{
    int fits;
    pthread_mutex_lock(&d->lock);
    v->crowded = d->count >= d->most;
    if (v->turned_away)
        fits = d->turned_away < TOLD && count_of(d, v) < TOLD_EACH;
    else
        fits = !v->crowded && count_of(d, v) < most_of(d, v);
    if (fits) {
        v->next = d->first;
        v->link = &d->first;
        if (v->next) v->next->link = &v->next;
        d->first = v;
        *(v->turned_away ? &d->turned_away : &d->count) += 1;
    }
    pthread_mutex_unlock(&d->lock);
    return fits;
}

/* NULL: the client has gone, or there is no memory. */
static struct gw_visitor *make_visitor(struct gw_door *d, int fd, const void *connection)
{
    struct gw_visitor *v = calloc(1, sizeof(*v));
    if (!v) return NULL;
    v->fd = fd;
    v->connection = connection;
    v->since = gw_deadline(0);
    int gone = gw_who(fd, v->who);
    if (!gone) {
        v->is_proxy = gw_proxies_has(&d->proxies, fd, v->who);
        return v;
    }
    free(v);
    return NULL;
}

void gw_door_reason(const struct gw_door *d, const struct gw_visitor *v, char *why, size_t room)
{
    if (v->crowded)
        snprintf(why, room, "%u connections are open, which is the limit: further ones are closed", d->most);
    else
        snprintf(
            why, room, "%s has %u connections open, as many as one client may: further ones are closed%s%s%s",
            v->who, most_of(d, v), d->option ? " (" : "", d->option ? d->option : "", d->option ? ")" : "");
}

struct gw_visitor *gw_door_enter(struct gw_door *d, int fd, const void *connection)
{
    struct gw_visitor *v = make_visitor(d, fd, connection);
    char why[256];
    if (!v || connections_put(d, v)) return v;
    gw_door_reason(d, v, why, sizeof(why));
    gw_say(&d->said, "%s", why);
    free(v);
    return NULL;
}

struct gw_visitor *gw_door_turn_away(struct gw_door *d, int fd, const void *connection)
{
    struct gw_visitor *v = make_visitor(d, fd, connection);
    if (v) v->turned_away = 1;
    if (!v || connections_put(d, v)) return v;
    free(v);
    return NULL;
}

bool gw_door_is_here(const struct gw_visitor *v)
{
    return gw_who_is_here(v->fd, v->who);
}

void gw_door_leave(struct gw_door *d, struct gw_visitor *v)
{
    if (!v) return;
    pthread_mutex_lock(&d->lock);
    *v->link = v->next;
    if (v->next) v->next->link = v->link;
    GW_ASSERT((v->turned_away ? d->turned_away : d->count) > 0);
    *(v->turned_away ? &d->turned_away : &d->count) -= 1;
    pthread_mutex_unlock(&d->lock);
    free(v);
}

void gw_door_served(struct gw_door *d, struct gw_visitor *v)
{
    if (!v) return;
    pthread_mutex_lock(&d->lock);
    v->since = gw_deadline(0);
    pthread_mutex_unlock(&d->lock);
}

void gw_door_busy(struct gw_visitor *v, int busy)
{
    __atomic_store_n(&v->busy, busy, __ATOMIC_RELAXED); /* it stands alone */
}

uint32_t gw_door_sweep(struct gw_door *d, bool (*stays)(void *ctx, const void *connection), void *ctx)
{
    uint64_t now = gw_deadline(0);
    uint32_t cut = 0;
    pthread_mutex_lock(&d->lock);
    uint64_t patience = d->count > d->most - d->most / 4 ? d->patience_ns / CROWDED_FACTOR : d->patience_ns;
    for (struct gw_visitor *v = d->first; v; v = v->next) {
        if (__atomic_load_n(&v->busy, __ATOMIC_RELAXED)) v->since = now; /* it stands alone */
        uint64_t its = v->turned_away ? d->patience_ns / CROWDED_FACTOR : patience;
        if (now - v->since < its || stays(ctx, v->connection)) continue;
        /* Its thread finds the connection at its end. The lock keeps the descriptor from being another's
         * by now. */
        shutdown(v->fd, SHUT_RDWR);
        v->since = now;
        cut++;
    }
    pthread_mutex_unlock(&d->lock);
    return cut;
}
