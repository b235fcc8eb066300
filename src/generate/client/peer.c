/* SPDX-License-Identifier: Apache-2.0 */
/* A client's sessions: their queues, how one is opened, and what becomes of it when it breaks. */
#include <errno.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/impl.h"

#define RESET_NS 1000000000u

int gen_peer_make(struct gen_client *c, uint32_t i)
{
    struct gen_peer *peer = &c->peer[i];
    uint32_t slots = c->opts.slots;
    peer->client = c;
    peer->place = c->place + (size_t)i * slots;
    peer->request = (uint8_t *)c->request.host + i * slots * c->request_stride;
    peer->events = (uint8_t *)c->event.host + i * slots * c->event_stride;
    peer->request_at = c->request_mr->addr + i * slots * c->request_stride;
    peer->event_at = c->event_mr->addr + i * slots * c->event_stride;
    for (uint32_t k = 0; k < slots; k++) {
        peer->place[k].peer = peer;
        peer->place[k].index = k;
    }
    struct gw_cq_attr cq = {.cqe = 4 * GEN_MAX_SLOTS, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    int err = gw_cq_create(c->opts.dev, &cq, &peer->send_cq);
    struct gw_qp_attr qp = {.send_cq = peer->send_cq,
                            .recv_cq = c->recv_cq,
                            .max_send_wr = 2 * slots,
                            .max_recv_wr = c->receives,
                            .flags = GW_QP_ONE_POSTER};
    return err ? err : gw_qp_create(c->pd, &qp, &peer->qp);
}

/* ---- opening ---- */

static int peer_ask_and_connect(struct gen_peer *peer)
{
    struct gen_client *c = peer->client;
    struct gen_wish wish = {.slots = c->opts.slots,
                            .ring = c->opts.shape.max_tokens,
                            .own = c->opts.own,
                            .event_addr = peer->event_at,
                            .event_stride = c->event_stride,
                            .event_rkey = c->event_mr->rkey};
    gw_qp_endpoint(peer->qp, &wish.endpoint);
    int err = c->opts.link.ops->open(c->opts.link.ctx, &wish, &peer->grant);
    if (err) return err;
    peer->granted = true;
    if (peer->grant.slots != c->opts.slots)
        return gw_error(-EPROTO, "model %s: a session has %u slots instead of %u", c->name, peer->grant.slots,
                        c->opts.slots);
    /* The generator writes nothing before our first request: receives may come after the connection. */
    err = gw_qp_connect(peer->qp, &peer->grant.endpoint, NULL);
    return err ? err : gw_qp_recv_empty(peer->qp, c->receives, (uint64_t)(peer - c->peer));
}

/* Is there a request that waits for the session, and was it taken back (1) or not (0)? */
static bool peer_waits(const struct gen_place *p, bool cancelled)
{
    struct gen_client *c = p->peer->client;
    GW_ASSERT_HELD(&p->peer->post);
    pthread_mutex_lock(&c->lock);
    bool waits = p->stream && p->bytes && !p->posted && p->stream->cancelled == cancelled;
    pthread_mutex_unlock(&c->lock);
    return waits;
}

/* Ends requests that wait. No lock is held: callbacks may submit others. */
static void peer_end_waiting(struct gen_peer *peer, bool cancelled, enum gen_status status)
{
    for (uint32_t k = 0; k < peer->client->opts.slots; k++) {
        pthread_mutex_lock(&peer->post);
        bool waits = peer_waits(&peer->place[k], cancelled);
        pthread_mutex_unlock(&peer->post);
        if (waits) gen_place_end(&peer->place[k], status);
    }
}

/* The slots that have no stream can take one; requests that have waited for the session are sent. */
static int peer_begin(struct gen_peer *peer)
{
    struct gen_client *c = peer->client;
    int err = 0;
    pthread_mutex_lock(&peer->post);
    peer->ready = true;
    peer->sent = 0;
    pthread_mutex_lock(&c->lock);
    peer->life = PEER_OPEN;
    peer->heard = gw_deadline(0);
    peer->free = NULL;
    peer->frees = 0;
    for (uint32_t k = c->opts.slots; k--;) {
        struct gen_place *p = &peer->place[k];
        if (p->stream) continue;
        p->next = peer->free;
        peer->free = p;
        peer->frees++;
    }
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t k = 0; !err && k < c->opts.slots; k++)
        if (peer_waits(&peer->place[k], false)) err = gen_place_post(&peer->place[k]);
    pthread_mutex_unlock(&peer->post);
    peer_end_waiting(peer, true, GEN_CANCELLED);
    return err;
}

static void peer_close(struct gen_peer *peer)
{
    if (peer->granted) peer->client->opts.link.ops->close(peer->client->opts.link.ctx, &peer->grant);
    peer->granted = false;
}

int gen_peer_open(struct gen_peer *peer)
{
    struct gen_client *c = peer->client;
    peer_close(peer); /* the one that broke */
    int err = peer_ask_and_connect(peer);
    if (!err) {
        if (peer_begin(peer)) gen_peer_break(peer);
        return 0;
    }
    peer_close(peer);
    if (err != -EAGAIN) peer_end_waiting(peer, false, GEN_FAILED);
    /* Half connected, it takes no other peer. No thread posts to it, and none polls for it. */
    if (gw_qp_reset(peer->qp, 0, gw_deadline(RESET_NS))) gw_qp_abort(peer->qp);
    pthread_mutex_lock(&c->lock);
    peer->life = PEER_CLOSED;
    pthread_mutex_unlock(&c->lock);
    return err;
}

/* ---- breaking ---- */

void gen_peer_break(struct gen_peer *peer)
{
    struct gen_client *c = peer->client;
    const uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    bool news = peer->life == PEER_OPEN;
    if (news) {
        peer->life = PEER_BROKEN;
        peer->free = NULL; /* its slots take no request from now on */
        peer->frees = 0;
    }
    pthread_mutex_unlock(&c->lock);
    if (news && write(c->kick_fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

static void peer_say(struct gen_peer *peer)
{
    struct gw_fault fault;
    char why[160] = "the generator has ended it";
    if (peer->client->opts.quiet) return;
    if (gw_qp_fault(peer->qp, &fault) > 0) gw_fault_text(&fault, why, sizeof(why));
    gw_say(&peer->client->said, "model %s: a session broke: %s", peer->client->name, why);
}

/* Can its request be sent once more? The client has seen nothing of it. */
static bool peer_may_again(const struct gen_place *p)
{
    return p->events == 0 && p->posts < 2 && !p->stream->cancelled && !p->stream->released;
}

/* Requests that were not sent yet wait for the next session; so do those that may be sent once more. */
void gen_peer_mend(struct gen_peer *peer)
{
    struct gen_client *c = peer->client;
    peer_say(peer);
    pthread_mutex_lock(&peer->post);
    peer->ready = false;
    /* Quiet: this thread is the events' poller, and those who poll for room hold `post`. */
    if (gw_qp_reset(peer->qp, GW_RESET_QUIET, gw_deadline(RESET_NS))) gw_qp_abort(peer->qp);
    pthread_mutex_lock(&c->lock);
    for (uint32_t k = 0; k < c->opts.slots; k++) {
        struct gen_place *p = &peer->place[k];
        if (p->stream && p->posted && peer_may_again(p)) p->posted = false;
    }
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&peer->post);
    /* No request is posted while the session is not ready, and so what was is the same until here. */
    for (uint32_t k = 0; k < c->opts.slots; k++)
        if (peer->place[k].posted) gen_place_end(&peer->place[k], GEN_FAILED);
    pthread_mutex_lock(&c->lock);
    peer->life = PEER_CLOSED;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
}
