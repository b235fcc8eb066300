/* SPDX-License-Identifier: Apache-2.0 */
/* The client's connection: which member of etcd it speaks to, and when it goes on to the next one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/etcd/calls.h"
#include "src/fleet/etcd/health.h"
#include "src/fleet/etcd/login.h"
#include "src/fleet/etcd/streams.h"
#include "src/grpc/call.h"

#define URLS       "http://127.0.0.1:2379"
#define SILENT_NS  600000000  /* with members to go on to: below a third of a leader's lease of 2 s */
#define ALONE_NS   2000000000 /* with one: a slow disk is not a dead one */
#define CONNECT_NS 1000000000u
#define AGAIN_NS   50000000u /* after no member could be reached; it doubles */
#define MAX_AGAIN  4         /* doublings */
#define RESOLVE_NS 5000000u
#define IDLE_NS    2000000000 /* without a word from etcd: asks it for one */
#define CLOSE_NS   300000000u

bool fleet_etcd_is_up(const struct fleet_etcd *e)
{
    return e->up == 1;
}

/* ---- connecting ---- */

static void client_open_link(struct fleet_etcd *e)
{
    struct gw_link_opts opts = {.authority = e->urls.authority[e->at],
                                .address = e->address,
                                .base = e->urls.base[e->at],
                                .ca_file = e->ca_file,
                                .encrypted = e->urls.encrypted,
                                .timeout_ns = CONNECT_NS,
                                .most = FLEET_ETCD_MAX_ANSWER};
    /* A member that has lost its leader says so at once, instead of waiting for one. */
    opts.header[0][0] = "hasleader";
    opts.header[0][1] = "true";
    int err = gw_link_open(&opts, &e->link);
    if (!err) err = gw_link_connect(&e->link);
    if (err && !*e->link.why) snprintf(e->link.why, sizeof(e->link.why), "%s", gw_last_error());
}

/* The connection has gone, or did not come about. All its calls hear of it, and the next member is tried. */
static void client_lost(struct fleet_etcd *e)
{
    snprintf(e->why, sizeof(e->why), "%.60s: %.180s", e->urls.base[e->at], e->link.why);
    e->is_ready = false;
    fleet_etcd_resolve_end(e->resolve);
    e->resolve = NULL;
    e->failures++;
    if (e->failures >= e->urls.n) {
        uint32_t more = e->failures - e->urls.n;
        uint64_t pause = gw_deadline((uint64_t)AGAIN_NS << (more < MAX_AGAIN ? more : MAX_AGAIN));
        if (pause > e->pause) e->pause = pause;
    }
    fleet_etcd_calls_look(e);
    fleet_etcd_streams_lose(e);
    gw_link_close(&e->link);
    e->at = (e->at + 1) % e->urls.n;
    *e->address = 0;
    fleet_etcd_doubt(e);
}

/* Goes on towards a connection. Returns when to look again; GW_NEVER: it is under way, or there is one. */
static uint64_t client_connect(struct fleet_etcd *e)
{
    const char *why = "no memory";
    if (e->link.room) return GW_NEVER;
    if (gw_deadline(0) < e->pause) return e->pause;
    if (!e->resolve) e->resolve = fleet_etcd_resolve_begin(e->urls.authority[e->at]);
    int err =
        e->resolve ? fleet_etcd_resolve_look(e->resolve, e->address, sizeof(e->address), &why) : -ENOMEM;
    if (err == -EAGAIN) return gw_deadline(RESOLVE_NS);
    if (err) {
        snprintf(e->link.why, sizeof(e->link.why), "%s", why);
        client_lost(e);
        return e->pause;
    }
    fleet_etcd_resolve_end(e->resolve);
    e->resolve = NULL;
    client_open_link(e);
    if (e->link.room) return GW_NEVER;
    client_lost(e); /* no memory */
    return gw_deadline(AGAIN_NS);
}

/* ---- a turn ---- */

/* Where nothing is asked, a dead member would not be noticed. */
static uint64_t client_probe(struct fleet_etcd *e)
{
    const struct fleet_etcd_op op = {
        .what = FLEET_ETCD_GET, .key = {"", 1}, .limit = 1, .serializable = true};
    const struct fleet_etcd_how how = {.done = NULL};
    if (!e->is_ready || e->runs) return GW_NEVER;
    if (gw_deadline(0) >= e->link.heard + IDLE_NS && TAILQ_EMPTY(&e->waiting))
        fleet_etcd_do(e, &op, &how, NULL);
    return e->link.heard + IDLE_NS;
}

static uint64_t client_first(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns when to look again. */
static uint64_t client_once(struct fleet_etcd *e)
{
    uint64_t next = client_connect(e);
    if (!e->link.room) return next;
    if (gw_deadline(0) >= fleet_etcd_calls_overdue(e)) fleet_etcd_leave(e, true, "it is silent");
    next = gw_link_step(&e->link);
    uint64_t heard = e->link.heard;
    if (e->link.is_going) gw_link_drop(&e->link, -ECONNRESET, "it is being stopped");
    if (!e->link.h2.session) {
        client_lost(e);
        e->again = true;
        return GW_NEVER;
    }
    if (gw_link_is_up(&e->link)) {
        if (!e->is_ready && !fleet_etcd_login(e)) {
            e->is_ready = true;
            if (e->token) e->link.opts.header[1][0] = "token";
            e->link.opts.header[1][1] = e->token;
        }
        fleet_etcd_streams_look(e);
        if (e->is_ready && gw_deadline(0) >= e->pause) fleet_etcd_streams_start(e);
        fleet_etcd_calls_look(e);
        if (gw_deadline(0) >= e->pause || e->login) fleet_etcd_calls_start(e);
        next = gw_link_step(&e->link); /* sends what was added */
        if (gw_deadline(0) < e->pause) next = client_first(next, e->pause);
        next = client_first(next, client_probe(e));
    }
    /* What came since the look was read from the socket, which will not speak of it again. */
    if (e->link.heard != heard) e->again = true;
    return client_first(next, fleet_etcd_calls_overdue(e));
}

/* The socket may have changed with each step, and the same number may be another socket. */
static void client_arm(struct fleet_etcd *e, uint64_t next)
{
    short events;
    int fd = e->link.room ? gw_link_fd(&e->link, &events) : -1;
    if (fd >= 0) {
        struct epoll_event wish = {.events = (uint32_t)events};
        if (epoll_ctl(e->epoll, EPOLL_CTL_MOD, fd, &wish)) epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &wish);
    }
    if (next != GW_NEVER)
        fleet_timer_set(e->loop, &e->step, (int64_t)next, e->turn, e);
    else
        fleet_timer_clear(e->loop, &e->step);
}

static void client_turn(void *ctx)
{
    struct fleet_etcd *e = ctx;
    uint64_t next;
    if (e->is_turning) {
        e->again = true;
        return;
    }
    e->is_turning = true;
    int turns = 0;
    do {
        e->again = false;
        next = client_once(e);
    } while (e->again && ++turns < 8);
    e->is_turning = false;
    client_arm(e, e->again ? gw_deadline(0) : next);
}

/* ---- opening and closing ---- */

static int client_copy(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? gw_error_errno(-ENOMEM, "etcd") : 0;
}

static int client_set_up(struct fleet_etcd *e, const struct fleet_etcd_opts *opts)
{
    const char *urls = opts->urls ? opts->urls : URLS;
    SSL_CTX *tls = NULL;
    int err = fleet_etcd_urls_parse(urls, &e->urls);
    if (!err) err = client_copy(urls, &e->all);
    if (!err) err = client_copy(opts->user, &e->user);
    if (!err) err = client_copy(opts->user && !opts->password ? "" : opts->password, &e->password);
    if (!err) err = client_copy(opts->ca_file, &e->ca_file);
    if (err) return err;
    if (e->urls.encrypted)
        err = gw_dial_encryption(e->ca_file, &tls); /* says now what is wrong with the file */
    SSL_CTX_free(tls);
    if (err) return err;
    e->silent_ns = opts->silent_ns ? opts->silent_ns : e->urls.n > 1 ? SILENT_NS : ALONE_NS;
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0) return gw_error_errno(-errno, "etcd: epoll");
    return fleet_watch_add(e->loop, e->epoll, client_turn, e, &e->watch);
}

int fleet_etcd_open(struct fleet_loop *loop, const struct fleet_etcd_opts *opts, struct fleet_etcd **out)
{
    struct fleet_etcd *e = calloc(1, sizeof(*e));
    if (!e) return gw_error_errno(-ENOMEM, "etcd");
    e->loop = loop;
    e->turn = client_turn;
    e->epoll = -1;
    e->up = -1;
    e->state = opts->state;
    e->ctx = opts->ctx;
    TAILQ_INIT(&e->waiting);
    TAILQ_INIT(&e->running);
    LIST_INIT(&e->streams);
    int err = client_set_up(e, opts);
    if (err) {
        fleet_etcd_close(e);
        return err;
    }
    fleet_etcd_doubt(e);
    fleet_etcd_kick(e);
    *out = e;
    return 0;
}

/* Sends what was asked last, leases given up above all, and waits a little for the answers. */
static void client_flush(struct fleet_etcd *e)
{
    uint64_t until = gw_deadline(CLOSE_NS);
    e->is_turning = true;
    if (e->is_ready) fleet_etcd_calls_start(e);
    while (e->link.room && gw_link_is_up(&e->link) && e->runs && gw_deadline(0) < until) {
        gw_link_pump(&e->link, until);
        struct fleet_etcd_call *c, *next;
        for (c = TAILQ_FIRST(&e->running); c; c = next) {
            next = TAILQ_NEXT(c, entry);
            if (c->rpc.seen) fleet_etcd_cancel(c);
        }
    }
}

void fleet_etcd_close(struct fleet_etcd *e)
{
    if (!e) return;
    if (e->epoll >= 0) client_flush(e);
    fleet_timer_clear(e->loop, &e->step);
    fleet_timer_clear(e->loop, &e->down);
    fleet_etcd_calls_close(e);
    gw_link_close(&e->link);
    if (e->watch) fleet_watch_drop(e->loop, e->watch);
    if (e->epoll >= 0) close(e->epoll);
    fleet_etcd_resolve_end(e->resolve);
    fleet_etcd_urls_free(&e->urls);
    free(e->token);
    free(e->user);
    free(e->password);
    free(e->ca_file);
    free(e->all);
    free(e);
}
