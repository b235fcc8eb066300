/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that opens a client's sessions, and asks after a generator that is silent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/client/impl.h"

#define SOON_NS   5000000u    /* until a session that is being made ready is asked for again */
#define LATER_NS  1000000000u /* after another failure */
#define SILENT_NS 2000000000u /* no event for this long: the generator is asked whether it has the session */

/* A session to be opened: one whose slots have requests that wait, or another one where slots run short. */
static struct gen_peer *keep_find_closed(struct gen_client *c)
{
    GW_ASSERT_HELD(&c->lock);
    struct gen_peer *closed = NULL;
    uint32_t frees = 0;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        struct gen_peer *peer = &c->peer[i];
        frees += peer->frees;
        if (peer->life != PEER_CLOSED) continue;
        if (peer->uses) return peer;
        if (!closed) closed = peer;
    }
    return c->waiting || frees < c->opts.slots / 4 + 1 ? closed : NULL;
}

static void keep_open(struct gen_client *c, struct gen_peer *peer)
{
    GW_ASSERT_HELD(&c->lock);
    peer->life = PEER_OPENING;
    pthread_mutex_unlock(&c->lock);
    int err = gen_peer_open(peer);
    pthread_mutex_lock(&c->lock);
    c->open_at = err ? gw_deadline(err == -EAGAIN ? SOON_NS : LATER_NS) : 0;
    snprintf(c->why, sizeof(c->why), "%s", err ? gw_last_error() : "");
    pthread_cond_broadcast(&c->freed);
}

static void keep_confirm(struct gen_client *c, struct gen_peer *peer)
{
    GW_ASSERT_HELD(&c->lock);
    if (peer->life != PEER_OPEN || !peer->uses || gw_deadline(0) < peer->heard + SILENT_NS) return;
    peer->heard = gw_deadline(0);
    struct gen_grant grant = peer->grant;
    pthread_mutex_unlock(&c->lock);
    int err = c->opts.link.ops->confirm(c->opts.link.ctx, &grant);
    if (err) gen_peer_break(peer);
    pthread_mutex_lock(&c->lock);
}

/* Sleeps until something is to be done: with no stream, until there is one. */
static void keep_sleep(struct gen_client *c, uint64_t until)
{
    GW_ASSERT_HELD(&c->lock);
    struct timespec end = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    if (until == UINT64_MAX)
        pthread_cond_wait(&c->work, &c->lock);
    else
        pthread_cond_timedwait(&c->work, &c->lock, &end);
}

void *gen_client_keep(void *arg)
{
    struct gen_client *c = arg;
    pthread_mutex_lock(&c->lock);
    while (c->closing < 2) {
        struct gen_peer *closed = keep_find_closed(c);
        if (closed && gw_deadline(0) >= c->open_at) {
            keep_open(c, closed);
            continue;
        }
        for (uint32_t i = 0; i < c->opts.sessions; i++) keep_confirm(c, &c->peer[i]);
        uint64_t until = c->streams ? gw_deadline(SILENT_NS / 2) : UINT64_MAX;
        if (closed && c->open_at < until) until = c->open_at;
        if (c->closing < 2) keep_sleep(c, until);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
