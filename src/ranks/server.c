/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of rank 0's server: accepts connections, reads and writes them, and ends. */
#include "src/ranks/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/ranks/address.h"
#include "src/ranks/server_impl.h"

#define HELLO_NS UINT64_C(5000000000) /* a stranger says who it is within this time */
#define AGAIN_NS UINT64_C(100000000)  /* no descriptor is left: accept again after this time */
#define TICK_MS  200                  /* how often waiting ranks hear whom they wait for */

/* A connection came. Where all places are taken, the oldest stranger goes: ranks say who they are at once. */
static void server_accept(struct gw_ranks_server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uint32_t place = 0;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            s->listen_ns = gw_ranks_now() + AGAIN_NS;
        return;
    }
    gw_ranks_tune(fd);
    for (uint32_t i = 0; i < GW_RANKS_STRANGERS && s->stranger[place]; i++)
        if (!s->stranger[i] || s->stranger[i]->since < s->stranger[place]->since) place = i;
    gw_ranks_conn_free(s->stranger[place]);
    s->stranger[place] = gw_ranks_conn_new(fd);
}

static void server_strangers(struct gw_ranks_server *s, const struct pollfd *p)
{
    uint64_t now = gw_ranks_now();

    for (uint32_t i = 0; i < GW_RANKS_STRANGERS; i++) {
        struct gw_ranks_conn *c = s->stranger[i];

        if (!c) continue;
        if (p[i].revents && gw_ranks_conn_read(c) && gw_ranks_serve(s, c)) {
            s->stranger[i] = NULL;
        } else if (c->broken || now - c->since > HELLO_NS) {
            gw_ranks_conn_free(c);
            s->stranger[i] = NULL;
        }
    }
}

static void server_peers(struct gw_ranks_server *s, const struct pollfd *p)
{
    for (uint32_t i = 0; i < s->size; i++) {
        struct gw_ranks_conn *c = s->peer[i].conn;

        if (!c || c->fd != p[i].fd) continue;
        if (p[i].revents & POLLOUT) gw_ranks_conn_flush(c);
        if (p[i].revents & ~POLLOUT && gw_ranks_conn_read(c)) gw_ranks_serve(s, c);
    }
    /* Telling others of one death may break their connections, too: they are found in the next round. */
    for (uint32_t i = 0; i < s->size; i++)
        if (s->peer[i].conn && s->peer[i].conn->broken) gw_ranks_serve_end(s, i, GW_RANKS_LOST);
}

/* True: no rank is here any more. */
static bool server_deserted(const struct gw_ranks_server *s)
{
    for (uint32_t i = 0; i < s->size; i++)
        if (s->peer[i].state == GW_RANKS_HERE) return false;
    return true;
}

/* p: the eventfd, the listener, the strangers, the ranks. Returns how long poll may wait. */
static int server_fill(struct gw_ranks_server *s, struct pollfd *p, bool stopping)
{
    uint64_t now = gw_ranks_now();
    bool strangers = false, listens = s->listener >= 0 && now >= s->listen_ns, broken = false;
    bool waits = gw_ranks_serve_missing(s);

    p[0] = (struct pollfd){.fd = stopping ? -1 : s->wake, .events = POLLIN};
    p[1] = (struct pollfd){.fd = listens ? s->listener : -1, .events = POLLIN};
    p += 2;
    for (uint32_t i = 0; i < GW_RANKS_STRANGERS; i++, p++) {
        *p = (struct pollfd){.fd = s->stranger[i] ? s->stranger[i]->fd : -1, .events = POLLIN};
        strangers |= s->stranger[i] != NULL;
    }
    for (uint32_t i = 0; i < s->size; i++, p++) {
        const struct gw_ranks_conn *c = s->peer[i].conn;

        *p = (struct pollfd){.fd = c ? c->fd : -1, .events = (short)(POLLIN | (c && c->first ? POLLOUT : 0))};
        broken |= c && c->broken;
    }
    if (broken) return 0;
    if (stopping) return gw_ranks_poll_ms(s->stop_ns);
    return waits || strangers || (s->listener >= 0 && !listens) ? TICK_MS : -1;
}

static void *server_run(void *arg)
{
    struct gw_ranks_server *s = arg;
    uint32_t n = 2 + GW_RANKS_STRANGERS + s->size;
    struct pollfd *p = calloc(n, sizeof(*p));
    bool stopping = false;
    uint64_t one;

    while (p && !(stopping && (server_deserted(s) || gw_ranks_now() >= s->stop_ns))) {
        int wait_ms = server_fill(s, p, stopping);

        if (poll(p, n, wait_ms) < 0) continue; /* EINTR or ENOMEM: nothing else can be */
        if (p[0].revents) stopping |= read(s->wake, &one, sizeof(one)) == sizeof(one);
        server_strangers(s, p + 2);
        server_peers(s, p + 2 + GW_RANKS_STRANGERS);
        if (p[1].revents && s->listener >= 0) server_accept(s);
    }
    free(p);
    return NULL;
}

static void server_free(struct gw_ranks_server *s)
{
    for (uint32_t i = 0; i < GW_RANKS_STRANGERS; i++) gw_ranks_conn_free(s->stranger[i]);
    for (uint32_t i = 0; s->peer && i < s->size; i++) gw_ranks_conn_free(s->peer[i].conn);
    gw_ranks_serve_free(s);
    gw_ranks_store_free(s->store);
    free(s->peer);
    if (s->listener >= 0) close(s->listener);
    if (s->wake >= 0) close(s->wake);
    free(s);
}

static int server_thread(struct gw_ranks_server *s)
{
    sigset_t all, before;
    int err;

    sigfillset(&all); /* the program's own threads handle its signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&s->thread, NULL, server_run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!err) pthread_setname_np(s->thread, "gw-ranks-0");
    return -err;
}

int gw_ranks_server_start(const struct gw_ranks_server_attr *attr, struct gw_ranks_server **out)
{
    struct gw_ranks_server *s = calloc(1, sizeof(*s));
    struct gw_ranks_conn *own = gw_ranks_conn_new(attr->own);
    int err = -ENOMEM;

    if (!s || !own) {
        gw_ranks_conn_free(own);
        if (attr->listener >= 0) close(attr->listener);
        free(s);
        return gw_error(-ENOMEM, "rendezvous: no memory");
    }
    s->listener = attr->listener;
    s->size = attr->size;
    strcpy(s->secret, attr->secret);
    s->wake = eventfd(0, EFD_CLOEXEC);
    s->stranger[0] = own;
    s->peer = calloc(s->size, sizeof(*s->peer));
    s->store = gw_ranks_store_new(s->size);
    if (s->wake < 0)
        err = -errno;
    else if (s->peer && s->store)
        err = server_thread(s);
    if (err) {
        server_free(s);
        return gw_error_errno(err, "rendezvous: rank 0's server");
    }
    *out = s;
    return 0;
}

int gw_ranks_server_stop(struct gw_ranks_server *server, uint64_t deadline_ns)
{
    uint64_t one = 1;
    int err;

    if (!server) return 0;
    server->stop_ns = deadline_ns;
    if (write(server->wake, &one, sizeof(one)) != sizeof(one)) return -EIO; /* an eventfd takes it */
    pthread_join(server->thread, NULL);
    err = server_deserted(server) ? 0 : -ETIMEDOUT;
    server_free(server);
    return err;
}
