/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that takes events, and calls the streams they belong to. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/impl.h"

#define TAKE 32

/* ---- telling streams ---- */

/* Its slot is free for the next request, if the session is open. No thread is about to post from it: an
 * event's thread has held `post` since the request was sent. */
static void take_let_go(struct gen_place *p)
{
    struct gen_peer *peer = p->peer;
    struct gen_client *c = peer->client;
    GW_ASSERT_HELD(&c->lock);
    struct gen_stream *s = p->stream;
    p->stream = NULL;
    p->bytes = 0;
    p->posted = false;
    s->place = NULL;
    gen_owner_give(&c->owners, s->owner);
    gen_stream_drop(s);
    peer->uses--;
    c->streams--;
    if (peer->life == PEER_OPEN) {
        p->next = peer->free;
        peer->free = p;
        peer->frees++;
    }
}

void gen_place_event(struct gen_place *p, const struct gen_event *e)
{
    struct gen_client *c = p->peer->client;
    struct gen_stream *s = p->stream; /* the slot's reference keeps it */
    bool last = e->status != GEN_GOING;
    pthread_mutex_lock(&c->lock);
    bool call = !s->released;
    s->calling = call;
    s->caller = pthread_self();
    pthread_mutex_unlock(&c->lock);
    if (call) s->event(s->ctx, e);
    pthread_mutex_lock(&c->lock);
    s->calling = false;
    bool tell = last || s->released;
    if (last) take_let_go(p);
    if (tell) pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
}

void gen_place_end(struct gen_place *p, enum gen_status status)
{
    const struct gen_event e = {
        .id = p->id, .number = p->events, .token = GEN_NO_TOKEN, .status = (uint16_t)status};
    gen_place_event(p, &e);
}

/* ---- taking events ---- */

/* Is it what this slot's request has next? The other side may write there at any time: *e is a copy. */
static bool take_is_sound(const struct gen_client *c, const struct gen_place *p, const struct gen_event *e)
{
    return e->id == p->id && e->number == p->events && e->status <= GEN_FAILED && e->tops <= GEN_MAX_TOPS &&
           (e->token < c->opts.shape.vocab || (e->token == GEN_NO_TOKEN && e->status > GEN_LENGTH));
}

static bool take_event(struct gen_client *c, const struct ibv_wc *wc)
{
    struct gen_peer *peer = &c->peer[wc->wr_id];
    uint32_t slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    struct gen_event e;
    if (wc->status != IBV_WC_SUCCESS || slot >= c->opts.slots) return false;
    struct gen_place *p = &peer->place[slot];
    pthread_mutex_lock(&peer->post);
    int err = gw_recv_empty(gw_qp_handle(peer->qp), 1, wc->wr_id);
    pthread_mutex_unlock(&peer->post);
    pthread_mutex_lock(&c->lock);
    bool busy = p->stream != NULL;
    peer->heard = gw_deadline(0);
    pthread_mutex_unlock(&c->lock);
    if (err || !busy) return false;
    uint32_t at = p->events % c->opts.shape.max_tokens;
    memcpy(&e, peer->events + slot * c->event_stride + at * sizeof(e), sizeof(e));
    if (!take_is_sound(c, p, &e)) return false;
    p->events++;
    gen_place_event(p, &e);
    return true;
}

/* Sleeps until something is to be done other than taking events: the device is dead. */
static void take_sleep(struct gen_client *c)
{
    struct pollfd fd = {.fd = c->kick_fd, .events = POLLIN};
    for (uint32_t i = 0; i < c->opts.sessions; i++) gen_peer_break(&c->peer[i]);
    poll(&fd, 1, -1);
}

/* Returns whether to go on. */
static bool take_tend(struct gen_client *c)
{
    uint64_t count;
    if (read(c->kick_fd, &count, sizeof(count)) < 0) count = 0;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        pthread_mutex_lock(&c->lock);
        bool broken = c->peer[i].life == PEER_BROKEN;
        pthread_mutex_unlock(&c->lock);
        if (broken) gen_peer_mend(&c->peer[i]);
    }
    pthread_mutex_lock(&c->lock);
    bool on = c->closing < 2;
    pthread_mutex_unlock(&c->lock);
    return on;
}

void *gen_client_take(void *arg)
{
    struct gen_client *c = arg;
    struct ibv_wc wc[TAKE];
    int n = 0;
    bool on = true;
    while (on) {
        n = gw_wait_cq(gw_cq_handle(c->recv_cq), TAKE, wc, GW_NEVER, NULL, c->kick_fd);
        for (int i = 0; i < n; i++)
            if (!take_event(c, &wc[i])) gen_peer_break(&c->peer[wc[i].wr_id]);
        if (n == -EIO) take_sleep(c);
        if (n < 0) on = take_tend(c);
    }
    return NULL;
}
