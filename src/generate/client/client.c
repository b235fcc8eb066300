/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a client of a generator, and ends it. */
#include "src/generate/client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/impl.h"

#define SLOT_ALIGN   256u
#define MAX_RECEIVES 1024u /* of a session: events that come at once, before the taker looks */
#define RETRY_NS     2000000000u
#define PAUSE_NS     5000000

static uint64_t client_align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* ---- making ---- */

static int client_make_memory(struct gen_client *c)
{
    const struct gen_client_opts *o = &c->opts;
    uint64_t words = (uint64_t)o->shape.context + GEN_MAX_STOPS + 2 * GEN_MAX_BIAS;
    uint64_t slots = (uint64_t)o->sessions * o->slots;
    struct gw_exec *exec = gw_device_exec(o->dev);
    c->request_stride = client_align_up(sizeof(struct gen_request) + words * sizeof(uint32_t));
    c->event_stride = (uint64_t)o->shape.max_tokens * sizeof(struct gen_event);
    c->receives = MAX_RECEIVES;
    int err = gw_pd_create(o->dev, &c->pd);
    struct gw_cq_attr cq = {
        .cqe = o->sessions * MAX_RECEIVES, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = o->sessions};
    if (!err) err = gw_cq_create(o->dev, &cq, &c->recv_cq);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_HOST, slots * c->request_stride, &c->request);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_HOST, slots * c->event_stride, &c->event);
    if (!err)
        err = gw_mr_register(c->pd, c->request.host, c->request.size, GW_MR_LOCAL_WRITE, &c->request_mr);
    if (!err) err = gw_mr_register(c->pd, c->event.host, c->event.size, GW_MR_REMOTE_WRITE, &c->event_mr);
    return err;
}

/* The first session, so that who makes the client learns why there is none. */
static int client_open_first(struct gen_client *c)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t end = gw_deadline(RETRY_NS);
    int err;
    do {
        c->peer[0].life = PEER_OPENING;
        err = gen_peer_open(&c->peer[0]);
    } while (err == -EAGAIN && gw_deadline(0) < end && !nanosleep(&pause, NULL));
    return err;
}

static int generate_client_start(struct gen_client *c)
{
    c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->kick_fd < 0) return gw_error_errno(-errno, "generate: cannot make an eventfd");
    int err = client_open_first(c);
    if (err) return err;
    err = pthread_create(&c->taker, NULL, gen_client_take, c);
    c->taking = !err;
    if (!err) err = pthread_create(&c->keeper, NULL, gen_client_keep, c);
    c->keeping = !err && c->taking;
    return err ? gw_error_errno(-err, "generate: cannot start a thread") : 0;
}

static void client_init_locks(struct gen_client *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->freed, &monotonic);
    pthread_cond_init(&c->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (uint32_t i = 0; c->peer && i < c->opts.sessions; i++) pthread_mutex_init(&c->peer[i].post, NULL);
}

static int generate_client_check(const struct gen_client_opts *o)
{
    if (o->slots < 1 || o->slots > GEN_MAX_SLOTS)
        return gw_error(-EINVAL, "slots: must be 1 to %u, not %u", GEN_MAX_SLOTS, o->slots);
    if (!o->sessions || !o->shape.max_tokens || o->shape.context < 2)
        return gw_error(-EINVAL, "a generator's client needs sessions, a context and tokens");
    return 0;
}

int gen_client_create(const struct gen_client_opts *o, struct gen_client **out)
{
    int err = generate_client_check(o);
    if (err) return err;
    struct gen_client *c = calloc(1, sizeof(*c));
    if (!c) return gw_error_errno(-ENOMEM, "generate");
    uint32_t slots = o->sessions * o->slots;
    c->opts = *o;
    c->kick_fd = -1;
    c->name = strdup(o->name);
    c->peer = calloc(o->sessions, sizeof(*c->peer));
    c->place = calloc(slots, sizeof(*c->place));
    client_init_locks(c);
    err = c->name && c->peer && c->place ? gen_owners_make(&c->owners, slots) : -ENOMEM;
    if (err) gw_error_errno(err, "generate");
    if (!err) err = client_make_memory(c);
    for (uint32_t i = 0; !err && i < o->sessions; i++) err = gen_peer_make(c, i);
    if (!err) err = generate_client_start(c);
    if (err)
        gen_client_destroy(c);
    else
        *out = c;
    return err;
}

/* ---- ending ---- */

static void client_join(struct gen_client *c)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    c->closing = 2;
    pthread_cond_broadcast(&c->freed);
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    if (c->kick_fd >= 0 && write(c->kick_fd, &one, sizeof(one)) < 0) return; /* it is readable already */
    if (c->keeping) pthread_join(c->keeper, NULL);
    if (c->taking) pthread_join(c->taker, NULL);
    c->keeping = c->taking = false;
}

void gen_client_close(struct gen_client *c, uint64_t deadline_ns)
{
    if (!c) return;
    struct timespec end = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u)};
    pthread_mutex_lock(&c->lock);
    if (!c->closing) c->closing = 1;
    pthread_cond_broadcast(&c->freed);
    while (c->taking && c->streams && !pthread_cond_timedwait(&c->freed, &c->lock, &end)) continue;
    pthread_mutex_unlock(&c->lock);
    client_join(c);
    pthread_mutex_lock(&c->lock);
    while (c->submitting) pthread_cond_wait(&c->freed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; c->place && i < c->opts.sessions * c->opts.slots; i++)
        if (c->place[i].stream) gen_place_end(&c->place[i], GEN_CLOSING);
}

static void client_free_peer(struct gen_client *c, struct gen_peer *peer)
{
    if (peer->granted) c->opts.link.ops->close(c->opts.link.ctx, &peer->grant);
    gw_qp_destroy(peer->qp);
    if (peer->send_cq) gw_cq_destroy(peer->send_cq);
    pthread_mutex_destroy(&peer->post);
}

void gen_client_destroy(struct gen_client *c)
{
    if (!c) return;
    gen_client_close(c, 0);
    for (uint32_t i = 0; c->peer && i < c->opts.sessions; i++) client_free_peer(c, &c->peer[i]);
    gw_mr_free(c->request_mr);
    gw_mr_free(c->event_mr);
    if (c->recv_cq) gw_cq_destroy(c->recv_cq);
    if (c->pd) gw_pd_destroy(c->pd);
    gw_mem_free(&c->request);
    gw_mem_free(&c->event);
    if (c->kick_fd >= 0) close(c->kick_fd);
    gen_owners_free(&c->owners);
    pthread_cond_destroy(&c->freed);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c->place);
    free(c->peer);
    free(c->name);
    free(c);
}

struct gen_source gen_client_source(struct gen_client *c)
{
    return (struct gen_source){.ops = &gen_client_ops, .own = c};
}

uint32_t gen_client_streams(struct gen_client *c)
{
    pthread_mutex_lock(&c->lock);
    uint32_t n = c->streams;
    pthread_mutex_unlock(&c->lock);
    return n;
}
