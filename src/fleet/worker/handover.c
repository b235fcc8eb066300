/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c: a list, and one call of the loop for all that is on it. */
#include "src/fleet/worker/handover.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <gpuwire/error.h>

struct fleet_handover {
    struct fleet_loop *loop;
    pthread_mutex_t lock; /* of what follows */
    struct fleet_handed *first, **last;
    bool called; /* the loop owes a call */
    bool closed;
};

int fleet_handover_create(struct fleet_loop *l, struct fleet_handover **out)
{
    struct fleet_handover *o = calloc(1, sizeof(*o));
    if (!o) return gw_error(-ENOMEM, "no memory for a list");
    o->loop = l;
    o->last = &o->first;
    pthread_mutex_init(&o->lock, NULL);
    *out = o;
    return 0;
}

void fleet_handover_run(struct fleet_handover *o)
{
    pthread_mutex_lock(&o->lock);
    struct fleet_handed *h = o->first;
    o->first = NULL;
    o->last = &o->first;
    pthread_mutex_unlock(&o->lock);
    for (struct fleet_handed *next; h; h = next) {
        next = h->next; /* f may free it */
        h->f(h);
    }
}

static void handover_free(struct fleet_handover *o)
{
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static void handover_called(void *ctx)
{
    struct fleet_handover *o = ctx;
    pthread_mutex_lock(&o->lock);
    o->called = false;
    bool closed = o->closed;
    pthread_mutex_unlock(&o->lock);
    if (closed)
        handover_free(o);
    else
        fleet_handover_run(o);
}

void fleet_handover_put(struct fleet_handover *o, struct fleet_handed *h)
{
    pthread_mutex_lock(&o->lock);
    h->next = NULL;
    *o->last = h;
    o->last = &h->next;
    bool call = !o->called;
    /* Under the lock: the thing may be the last one, and the list gone once it was taken. Without memory the
     * next one asks again. */
    if (call) o->called = !fleet_loop_call(o->loop, handover_called, o);
    pthread_mutex_unlock(&o->lock);
}

void fleet_handover_close(struct fleet_handover *o)
{
    if (!o) return;
    fleet_handover_run(o);
    pthread_mutex_lock(&o->lock);
    o->closed = true;
    bool owed = o->called;
    pthread_mutex_unlock(&o->lock);
    if (!owed) handover_free(o);
}
