/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the load generator: its connections, when to send what, and when to stop.
 *
 * Without a rate each connection has `pipeline` requests under way all the time. With one, requests are due
 * at times that do not depend on the server. A request that finds no room waits, and its time begins when it
 * was due: a slow server does not hide its delays. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/load/connection.h"
#include "apps/faceverify/now.h"

#define LONGEST_SLEEP_NS 20000000u

struct worker {
    const struct face_load *load;
    struct face_tally *tally;
    struct face_connection *connection;
    uint32_t count, open, busy, turn, next_ask;
    uint64_t due_ns, state;
    double gap_ns;      /* between requests of this thread, on average; 0: no rate */
    struct pollfd *fds; /* of each connection */
};

static void worker_drop(struct worker *w, struct face_connection *c, int err)
{
    struct face_tally *t = w->tally;
    if (err == -EPROTO) t->strange++;
    if (!t->gone++ && !t->why[0])
        snprintf(t->why, sizeof(t->why), "connection %u: %s", c->index,
                 err == -EPROTO ? "what came is no reply to a request" : strerror(-err));
    w->busy -= c->busy;
    w->open--;
    face_connection_close(c, t);
}

static void worker_send(struct worker *w, struct face_connection *c)
{
    int err = face_connection_send(c);
    if (err) worker_drop(w, c, err);
}

static void worker_post(struct worker *w, struct face_connection *c, uint64_t begun)
{
    face_connection_post(c, &w->load->ask[w->next_ask], begun);
    w->next_ask = w->next_ask + 1 < w->load->asks ? w->next_ask + 1 : 0;
    w->busy++;
    w->tally->sent++;
}

static bool has_room(const struct face_connection *c)
{
    return c->fd >= 0 && c->busy < c->pipeline;
}

/* Fills a connection's pipeline. */
static void worker_fill(struct worker *w, struct face_connection *c)
{
    uint64_t now = face_now();
    if (now >= w->load->end_ns) return;
    while (has_room(c)) worker_post(w, c, now);
    worker_send(w, c);
}

static double worker_gap(struct worker *w)
{
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return -log(1 - (double)(w->state >> 11) / 9007199254740992.0) * w->gap_ns;
}

/* Sends what is due, each request on the next connection with room; what is due together goes together. */
static void worker_send_due(struct worker *w)
{
    uint64_t now = face_now();
    uint32_t looked = 0, begun = 0;
    while (w->due_ns <= now && w->due_ns < w->load->end_ns && looked < w->count) {
        struct face_connection *c = &w->connection[w->turn];
        w->turn = w->turn + 1 < w->count ? w->turn + 1 : 0;
        looked++;
        if (!has_room(c)) continue;
        worker_post(w, c, w->due_ns);
        w->due_ns += (uint64_t)worker_gap(w);
        looked = 0;
        begun++;
    }
    for (uint32_t i = 0; begun && i < w->count; i++) {
        struct face_connection *c = &w->connection[i];
        if (c->fd >= 0 && !c->want_out && face_connection_unsent(c)) worker_send(w, c);
    }
}

/* How long nothing needs to be done unless something comes. */
static uint64_t worker_sleep(const struct worker *w)
{
    uint64_t now = face_now(), sleep = LONGEST_SLEEP_NS;
    if (w->gap_ns > 0 && w->due_ns < w->load->end_ns && w->due_ns > now && w->due_ns - now < sleep)
        sleep = w->due_ns - now;
    if (w->load->end_ns > now && w->load->end_ns - now < sleep) sleep = w->load->end_ns - now;
    return sleep;
}

static void worker_serve(struct worker *w, struct face_connection *c, int events)
{
    uint32_t busy = c->busy;
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        int err = face_connection_receive(c, w->load, w->tally);
        w->busy -= busy - c->busy;
        if (err) {
            worker_drop(w, c, err);
            return;
        }
    }
    if (w->gap_ns > 0) {
        if (events & POLLOUT) worker_send(w, c);
    } else {
        worker_fill(w, c);
        if (c->fd >= 0 && face_now() >= w->load->end_ns) worker_send(w, c);
    }
}

/* The connections' descriptors, and what to wait for. */
static void worker_poll(struct worker *w, uint64_t ns)
{
    for (uint32_t i = 0; i < w->count; i++) {
        const struct face_connection *c = &w->connection[i];
        bool out = c->want_out || !c->connected;
        w->fds[i] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))};
    }
    w->load->wire->wait(w->fds, w->count, ns);
}

static void worker_wait(struct worker *w, uint64_t sleep)
{
    worker_poll(w, sleep);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->fds[i].revents && w->connection[i].fd >= 0)
            worker_serve(w, &w->connection[i], w->fds[i].revents);
}

/* Waits until every connection is established. */
static int worker_connect(struct worker *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        int err = face_connection_open(&w->connection[i], w->load);
        if (err) return err;
    }
    uint64_t deadline = face_now() + w->load->patience_ns;
    while (w->open < w->count && !gw_interrupted()) {
        worker_poll(w, LONGEST_SLEEP_NS);
        for (uint32_t i = 0; i < w->count; i++) {
            struct face_connection *c = &w->connection[i];
            if (c->connected || !w->fds[i].revents) continue;
            int err = w->load->wire->connected(c->fd);
            if (err) return gw_error_errno(-err, "cannot connect to the server");
            c->connected = true;
            w->open++;
        }
        if (face_now() > deadline)
            return gw_error(-ETIMEDOUT, "only %u of %u connections were accepted in time", w->open, w->count);
    }
    return 0;
}

static void worker_run(struct worker *w)
{
    const struct face_load *load = w->load;
    while (face_now() < load->begin_ns && !gw_interrupted()) usleep(200);
    w->due_ns = load->begin_ns + (uint64_t)worker_gap(w);
    for (uint32_t i = 0; w->gap_ns <= 0 && i < w->count; i++) worker_fill(w, &w->connection[i]);
    while (!gw_interrupted() && w->open) {
        uint64_t now = face_now();
        if (now >= load->end_ns && (!w->busy || now >= load->end_ns + load->patience_ns)) break;
        if (w->gap_ns > 0) worker_send_due(w);
        worker_wait(w, worker_sleep(w));
    }
}

static int worker_begin(struct worker *w, struct face_load *load, uint32_t index)
{
    w->count = load->connections / load->threads + (index < load->connections % load->threads);
    w->gap_ns = load->rate > 0 ? 1e9 * load->threads / load->rate : 0;
    w->next_ask = (uint32_t)((uint64_t)load->asks * index / load->threads);
    w->connection = aligned_alloc(16, w->count * sizeof(*w->connection));
    if (!w->connection) return gw_error(-ENOMEM, "no memory for %u connections", w->count);
    memset(w->connection, 0, w->count * sizeof(*w->connection));
    for (uint32_t i = 0; i < w->count; i++) {
        w->connection[i].fd = -1;
        w->connection[i].index = index + i * load->threads;
    }
    w->fds = calloc(w->count, sizeof(*w->fds));
    return w->fds ? worker_connect(w) : gw_error(-ENOMEM, "no memory for %u connections", w->count);
}

static void worker_end(struct worker *w)
{
    uint64_t end = w->load->end_ns;
    if (w->gap_ns > 0 && end > w->due_ns && !gw_interrupted())
        w->tally->behind += (uint64_t)((double)(end - w->due_ns) / w->gap_ns);
    for (uint32_t i = 0; w->connection && i < w->count; i++)
        face_connection_close(&w->connection[i], w->tally);
    free(w->connection);
    free(w->fds);
}

int face_load_work(struct face_load *load, uint32_t index, struct face_tally *tally)
{
    struct worker w = {.load = load, .tally = tally, .state = index * 2654435761u + 1};
    int err = worker_begin(&w, load, index);
    if (err) atomic_store_explicit(&load->failed, true, memory_order_relaxed); /* the barrier orders it */
    pthread_barrier_wait(&load->connected);
    pthread_barrier_wait(&load->set);
    w.due_ns = load->end_ns;
    if (!atomic_load_explicit(&load->failed, memory_order_relaxed)) worker_run(&w);
    worker_end(&w);
    return err;
}
