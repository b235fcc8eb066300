/* SPDX-License-Identifier: Apache-2.0 */
/* Doors call this: they submit streams, take them back, and let go of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/client/impl.h"

/* ---- a slot ---- */

/* May this client have one more? */
static bool stream_has_share(struct gen_client *c, const char *who, struct gen_owner **owner)
{
    GW_ASSERT_HELD(&c->lock);
    uint32_t all = c->opts.sessions * c->opts.slots;
    *owner = gen_owner_find(&c->owners, who);
    return (*owner)->slots < (c->opts.share ? c->opts.share : all - all / 4);
}

/* The open session that has most free slots. */
static struct gen_peer *stream_find_peer(struct gen_client *c)
{
    GW_ASSERT_HELD(&c->lock);
    struct gen_peer *best = NULL;
    for (uint32_t i = 0; i < c->opts.sessions; i++)
        if (c->peer[i].frees && (!best || c->peer[i].frees > best->frees)) best = &c->peer[i];
    return best;
}

static void stream_take(struct gen_stream *s, struct gen_peer *peer, struct gen_owner *owner)
{
    struct gen_client *c = s->client;
    struct gen_place *p = peer->free;
    peer->free = p->next;
    peer->frees--;
    if (!peer->uses++) peer->heard = gw_deadline(0);
    owner->slots++;
    c->streams++;
    p->stream = s;
    p->events = 0;
    p->posts = 0;
    s->place = p;
    s->owner = owner;
    s->refs = 2; /* the caller's and the slot's */
    if (c->streams == 1 || peer->frees < c->opts.slots / 4) pthread_cond_signal(&c->work);
}

/* One step towards a slot: 1 when there is one, 0 when the caller shall look again, or a negative errno. */
static int stream_step(struct gen_stream *s, const char *who, uint64_t deadline_ns)
{
    struct gen_client *c = s->client;
    struct gen_owner *owner;
    if (c->closing) return gw_error(-ESHUTDOWN, "model %s is being stopped", c->name);
    bool may = stream_has_share(c, who, &owner);
    struct gen_peer *peer = may ? stream_find_peer(c) : NULL;
    if (peer) {
        stream_take(s, peer, owner);
        return 1;
    }
    if (!owner->slots) gen_owner_give(&c->owners, owner);
    if (!may && !deadline_ns)
        return gw_error(-EDQUOT, "model %s: this client has as many requests as one may have", c->name);
    if (!deadline_ns && c->why[0]) return gw_error(-EIO, "model %s: %s", c->name, c->why);
    if (!deadline_ns) return gw_error(-EAGAIN, "model %s: every place for a request is taken", c->name);
    struct timespec end = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u)};
    c->waiting++;
    pthread_cond_signal(&c->work);
    int late = pthread_cond_timedwait(&c->freed, &c->lock, &end) == ETIMEDOUT;
    c->waiting--;
    return late ? gw_error(-ETIMEDOUT, "model %s: every place for a request stayed taken", c->name) : 0;
}

/* ---- the request ---- */

/* Numbers that the generator is to take for its defaults are set here. */
static void stream_write(struct gen_place *p, const struct gen_source_ask *ask)
{
    struct gen_request *r = gen_place_request(p);
    uint32_t *at = (uint32_t *)(r + 1);
    *r = ask->request;
    r->magic = GEN_MAGIC;
    r->version = GEN_VERSION;
    r->slot = (uint16_t)p->index;
    r->id = p->id;
    r->taken = 0;
    memset(r->reserved, 0, sizeof(r->reserved));
    memcpy(at, ask->prompt, r->prompt * sizeof(*at));
    at += r->prompt;
    if (r->stops) memcpy(at, ask->stop, r->stops * sizeof(*at));
    at += r->stops;
    if (r->biases) memcpy(at, ask->bias, r->biases * sizeof(*ask->bias));
    at += (size_t)r->biases * 2;
    p->bytes = (uint32_t)((uint8_t *)at - (uint8_t *)r);
}

static void stream_send(struct gen_stream *s, const struct gen_source_ask *ask)
{
    struct gen_place *p = s->place; /* until the request is written, nothing ends it */
    struct gen_peer *peer = p->peer;
    struct gen_client *c = s->client;
    pthread_mutex_lock(&peer->post);
    pthread_mutex_lock(&c->lock);
    p->id = ++c->ids;
    pthread_mutex_unlock(&c->lock);
    stream_write(p, ask);
    /* A session that broke in between is opened again, and then takes the request. */
    int err = peer->ready ? gen_place_post(p) : 0;
    pthread_mutex_unlock(&peer->post);
    if (err) gen_peer_break(peer);
}

static int stream_submit(void *own, const struct gen_source_ask *ask, struct gen_stream **out)
{
    struct gen_client *c = own;
    int got = gen_source_check(&c->opts.shape, ask);
    if (got) return got;
    struct gen_stream *s = calloc(1, sizeof(*s));
    if (!s) return gw_error_errno(-ENOMEM, "generate");
    s->client = c;
    s->event = ask->event;
    s->ctx = ask->ctx;
    pthread_mutex_lock(&c->lock);
    while (!(got = stream_step(s, ask->who, ask->deadline_ns))) continue;
    c->submitting += got > 0;
    pthread_mutex_unlock(&c->lock);
    if (got < 0) {
        free(s);
        return got;
    }
    *out = s; /* before an event can come */
    stream_send(s, ask);
    pthread_mutex_lock(&c->lock);
    if (!--c->submitting && c->closing) pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
    return 0;
}

/* ---- its end ---- */

void gen_stream_drop(struct gen_stream *s)
{
    GW_ASSERT_HELD(&s->client->lock);
    if (!--s->refs) free(s);
}

/* The generator is told, if it has the request. The stream has a reference of the caller's. */
static void stream_recall(struct gen_stream *s)
{
    struct gen_client *c = s->client;
    pthread_mutex_lock(&c->lock);
    struct gen_place *p = s->cancelled ? NULL : s->place;
    s->cancelled = true;
    pthread_mutex_unlock(&c->lock);
    if (!p) return;
    pthread_mutex_lock(&p->peer->post);
    pthread_mutex_lock(&c->lock);
    bool there = s->place == p && p->posted;
    pthread_mutex_unlock(&c->lock);
    int err = there && p->peer->ready ? gen_place_recall(p) : 0;
    pthread_mutex_unlock(&p->peer->post);
    if (err) gen_peer_break(p->peer);
}

static void stream_cancel(struct gen_stream *s)
{
    struct gen_client *c = s->client;
    pthread_mutex_lock(&c->lock);
    s->refs++;
    pthread_mutex_unlock(&c->lock);
    stream_recall(s);
    pthread_mutex_lock(&c->lock);
    gen_stream_drop(s);
    pthread_mutex_unlock(&c->lock);
}

static void stream_release(struct gen_stream *s)
{
    if (!s) return;
    struct gen_client *c = s->client;
    pthread_mutex_lock(&c->lock);
    s->released = true;
    while (s->calling && !pthread_equal(s->caller, pthread_self())) pthread_cond_wait(&c->freed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    stream_recall(s);
    pthread_mutex_lock(&c->lock);
    gen_stream_drop(s);
    pthread_mutex_unlock(&c->lock);
}

/* ---- numbers ---- */

static void stream_shape(void *own, struct gen_source_shape *out)
{
    *out = ((struct gen_client *)own)->opts.shape;
}

static void stream_stats(void *own, struct gen_source_stats *out)
{
    const struct gen_client *c = own;
    c->opts.link.ops->stats(c->opts.link.ctx, out);
}

const struct gen_source_ops gen_client_ops = {.shape = stream_shape,
                                              .submit = stream_submit,
                                              .cancel = stream_cancel,
                                              .release = stream_release,
                                              .stats = stream_stats};
