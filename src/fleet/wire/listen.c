/* SPDX-License-Identifier: Apache-2.0 */
/* Lets connections in. Strangers, which have not proved themselves, take no place from those that have: when
 * all places are taken, the oldest stranger goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/fleet/wire/talk.h"

#define MS INT64_C(1000000)
enum { AT_ONCE = 64 };

struct fleet_listener {
    struct fleet_member member;
    struct fleet_loop *loop;
    struct fleet_side *side;
    struct fleet_handler handler;
    void *ctx;
    int fd; /* -1: closed */
    uint16_t port;
    struct fleet_watch *watch;
    struct fleet_timer pause;           /* while no descriptor is free */
    uint32_t refs, places;              /* refs: its owner and its connections; places: those taken */
    struct fleet_conn *oldest, *newest; /* strangers */
};

static void listener_free(struct fleet_listener *s)
{
    if (s->fd >= 0) close(s->fd);
    fleet_side_release(s->side);
    free(s);
}

static void listener_destroy(struct fleet_member *m)
{
    listener_free((struct fleet_listener *)((char *)m - offsetof(struct fleet_listener, member)));
}

static void listener_release(struct fleet_listener *s)
{
    if (--s->refs) return;
    fleet_member_remove(&s->member);
    listener_free(s);
}

/* ---- its connections */

static void listener_knows(struct fleet_conn *c)
{
    struct fleet_listener *s = c->listener;
    if (!c->stranger) return;
    c->stranger = false;
    *(c->prev ? &c->prev->next : &s->oldest) = c->next;
    *(c->next ? &c->next->prev : &s->newest) = c->prev;
    c->prev = c->next = NULL;
}

static void listener_forget(struct fleet_conn *c)
{
    struct fleet_listener *s = c->listener;
    listener_knows(c);
    c->listener = NULL;
    s->places--;
    listener_release(s);
}

static void listener_enters(struct fleet_listener *s, struct fleet_conn *c)
{
    c->listener = s;
    c->known = listener_knows;
    c->left = listener_forget;
    c->stranger = true;
    c->prev = s->newest;
    *(s->newest ? &s->newest->next : &s->oldest) = c;
    s->newest = c;
    s->refs++;
    s->places++;
}

/* ---- letting in */

static void listener_go_on(void *arg)
{
    struct fleet_listener *s = arg;
    fleet_watch_events(s->loop, s->watch, EPOLLIN);
}

/* No descriptor or no memory: connections wait in the kernel. */
static void listener_rest(struct fleet_listener *s)
{
    if (!fleet_timer_set(s->loop, &s->pause, fleet_loop_now(s->loop) + 100 * MS, listener_go_on, s))
        fleet_watch_events(s->loop, s->watch, 0);
}

static void listener_take(struct fleet_listener *s, int fd, const struct fleet_address *peer)
{
    struct fleet_conn *c;
    bool stays = s->side->opts.token || fleet_address_loopback(peer);
    if (stays && s->places == s->side->opts.connections && s->oldest)
        fleet_link_fail(s->oldest, -EBUSY, "too many peers connect at once");
    if (!stays || s->places == s->side->opts.connections) {
        close(fd);
        return;
    }
    if (fleet_talk_make(s->loop, s->side, fd, peer, &c)) return;
    c->handler = s->handler;
    c->ctx = s->ctx;
    listener_enters(s, c);
    fleet_talk_greet(c);
}

static void listener_event(void *arg)
{
    struct fleet_listener *s = arg;
    s->refs++; /* a handler may close it */
    for (int i = 0; i < AT_ONCE && s->fd >= 0; i++) {
        struct fleet_address peer = {.bytes = sizeof(peer.at)};
        int fd = accept4(s->fd, (struct sockaddr *)&peer.at, &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) continue;
        if (fd < 0 && errno != EAGAIN) listener_rest(s);
        if (fd < 0) break;
        listener_take(s, fd, &peer);
    }
    listener_release(s);
}

/* ---- the listener */

static int listener_socket(const char *address, uint16_t *port)
{
    struct fleet_address a;
    int on = 1, err = fleet_address_read(address, true, &a);
    if (err) return err;
    int fd = socket(a.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return gw_error_errno(-errno, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&a.at, a.bytes) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&a.at, &a.bytes)) {
        err = -errno;
        close(fd);
        return gw_error_errno(err, "listen on %s", address);
    }
    *port = fleet_address_port(&a);
    return fd;
}

int fleet_listen(struct fleet_loop *l, const struct fleet_conn_opts *opts, const char *address,
                 const struct fleet_handler *handler, void *ctx, struct fleet_listener **out)
{
    struct fleet_listener *s = calloc(1, sizeof(*s));
    if (!s) return gw_error(-ENOMEM, "no memory to listen");
    int err = fleet_side_make(opts, &s->side);
    if (!err && (s->fd = listener_socket(address, &s->port)) < 0) err = s->fd;
    if (!err) err = fleet_watch_add(l, s->fd, listener_event, s, &s->watch);
    if (err) {
        if (s->fd > 0) close(s->fd);
        if (s->side) fleet_side_release(s->side);
        free(s);
        return err;
    }
    s->loop = l;
    s->handler = *handler;
    s->ctx = ctx;
    s->refs = 1;
    s->member.destroy = listener_destroy;
    fleet_member_add(l, &s->member);
    *out = s;
    return 0;
}

uint16_t fleet_listener_port(const struct fleet_listener *s)
{
    return s->port;
}

void fleet_listener_close(struct fleet_listener *s)
{
    if (!s) return;
    fleet_timer_clear(s->loop, &s->pause);
    fleet_watch_drop(s->loop, s->watch);
    close(s->fd);
    s->fd = -1;
    listener_release(s);
}
