/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life: it dials or is let in, proves itself, takes frames, and watches that its peer
 * speaks. */
#include "src/fleet/wire/talk.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/fleet/wire/handshake.h"

#define MS INT64_C(1000000)
enum {
    READS = 8,       /* of one turn, so that others have theirs */
    FIRST_PINGS = 4, /* soon after another, because the clocks are needed soon */
};

/* ---- the clock of an open connection */

static void talk_tick(void *arg)
{
    struct fleet_conn *c = arg;
    int64_t silent = c->side->opts.silent_ns, now = fleet_loop_now(c->loop), rest = silent / 4;
    /* We slept, not the peer: it gets the time to be heard. */
    if (c->tick_at && now - c->tick_at > silent / 2) c->heard_at = now - silent / 2;
    c->tick_at = now;
    if (now - c->heard_at >= silent) {
        fleet_link_refuse(c, -ETIMEDOUT, "it is silent");
        return;
    }
    struct fleet_ping p = {.sent_at = fleet_clock_now()};
    c->clock.asked_at = p.sent_at;
    fleet_link_put(c, FLEET_PING, 0, &p, sizeof(p));
    if (c->ticks < FIRST_PINGS && rest > 50 * MS) rest = 50 * MS;
    if (c->ticks++ >= FIRST_PINGS) {
        fleet_inbox_trim(&c->in);
        fleet_outbox_trim(&c->out);
    }
    if (fleet_timer_set(c->loop, &c->timer, now + rest, talk_tick, c))
        fleet_link_fail(c, -ENOMEM, "no memory for a timer");
}

static void talk_hear_ping(struct fleet_conn *c, const struct fleet_frame *f, const struct fleet_ping *ping)
{
    int64_t now = fleet_clock_now();
    if (f->bytes != sizeof(*ping)) {
        fleet_link_refuse(c, -EPROTO, "a PING or PONG of another length");
        return;
    }
    if (f->kind == FLEET_PONG) {
        fleet_clock_pong(&c->clock, ping, now);
        return;
    }
    struct fleet_ping pong = {ping->sent_at, now, now};
    fleet_link_put(c, FLEET_PONG, f->seq, &pong, sizeof(pong));
}

int fleet_conn_clock(const struct fleet_conn *c, int64_t *offset_ns, int64_t *error_ns)
{
    return fleet_clock_read(&c->clock, fleet_loop_now(c->loop), offset_ns, error_ns);
}

/* ---- receiving */

static void talk_hear_goodbye(struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    const struct fleet_goodbye *g = FLEET_BODY(struct fleet_goodbye, f, body);
    bool good = g && g->error <= 0 && g->error > -4096 && fleet_text_ok(g->why, sizeof(g->why));
    char why[FLEET_WHY] = "it says goodbye, without a reason";
    int err = good && g->error ? g->error : -ECONNRESET;
    if (good && g->why[0]) memcpy(why, g->why, sizeof(why));
    fleet_link_fail(c, err, why);
}

static void talk_proved(struct fleet_conn *c)
{
    if (c->known) c->known(c);
    c->state = FLEET_LINK_OPEN;
    c->in.most = c->side->opts.most;
    c->heard_at = fleet_loop_now(c->loop);
    talk_tick(c);
    if (c->state == FLEET_LINK_OPEN && c->handler.open) c->handler.open(c->ctx, c);
}

static bool talk_take(void *arg, const struct fleet_frame *f, const void *body)
{
    struct fleet_conn *c = arg;
    if (f->kind == FLEET_GOODBYE)
        talk_hear_goodbye(c, f, body);
    else if (c->state != FLEET_LINK_OPEN && fleet_handshake_frame(c, f, body))
        talk_proved(c);
    else if (c->state != FLEET_LINK_OPEN)
        return c->state < FLEET_LINK_ENDS;
    else if (f->kind == FLEET_PING || f->kind == FLEET_PONG)
        talk_hear_ping(c, f, body);
    else if (f->kind == FLEET_HELLO || f->kind == FLEET_PROVE)
        fleet_link_refuse(c, -EPROTO, "it says HELLO or PROVE again");
    else
        c->handler.message(c->ctx, c, f, body);
    return c->state < FLEET_LINK_ENDS;
}

/* Of a connection that ends: nothing is kept, so that the peer cannot make it grow. */
static void talk_discard(struct fleet_conn *c)
{
    ssize_t n = read(c->fd, c->in.scratch->read, FLEET_SCRATCH);
    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) fleet_link_over(c);
}

static void talk_read(struct fleet_conn *c)
{
    int64_t n = 1;
    for (int i = 0; i < READS && n > 0 && c->state < FLEET_LINK_ENDS; i++) {
        n = fleet_inbox_read(&c->in, c->fd);
        if (n > 0) c->heard_at = fleet_loop_now(c->loop);
        if (n < FLEET_SCRATCH) break;
    }
    if (n >= 0 || n == -EAGAIN || c->state >= FLEET_LINK_ENDS) return;
    if (n == -EPROTO || n == -EMSGSIZE)
        fleet_link_refuse(c, (int)n, c->in.wrong);
    else
        fleet_link_fail(c, (int)n, n == -EPIPE ? "it has closed the connection" : strerror((int)-n));
}

/* ---- the beginning */

static void talk_dialled(struct fleet_conn *c)
{
    int err = 0;
    socklen_t bytes = sizeof(err);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &bytes)) err = errno;
    if (err)
        fleet_link_fail(c, -err, strerror(err));
    else
        fleet_talk_greet(c);
}

static void talk_event(void *arg)
{
    struct fleet_conn *c = arg;
    if (c->state == FLEET_LINK_DIALS) {
        talk_dialled(c);
        return;
    }
    if (c->writes) fleet_link_flush(c);
    if (c->state == FLEET_LINK_ENDS)
        talk_discard(c);
    else if (c->state != FLEET_LINK_OVER)
        talk_read(c);
}

static void talk_late(void *arg)
{
    struct fleet_conn *c = arg;
    if (c->state == FLEET_LINK_DIALS)
        fleet_link_fail(c, -ETIMEDOUT, "it does not answer");
    else
        fleet_link_refuse(c, -ETIMEDOUT, "it does not end its handshake");
}

void fleet_talk_greet(struct fleet_conn *c)
{
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->state = FLEET_LINK_GREETS;
    fleet_link_watch(c, false);
    if (c->state == FLEET_LINK_GREETS) fleet_handshake_begin(c);
}

int fleet_talk_make(struct fleet_loop *l, struct fleet_side *side, int fd, const struct fleet_address *peer,
                    struct fleet_conn **out)
{
    struct fleet_conn *c = calloc(1, sizeof(*c));
    int err = c ? 0 : gw_error(-ENOMEM, "no memory for a connection");
    if (!err) err = fleet_watch_add(l, fd, talk_event, c, &c->watch);
    if (!err &&
        (err = fleet_timer_set(l, &c->timer, fleet_loop_now(l) + side->opts.handshake_ns, talk_late, c)))
        fleet_watch_drop(l, c->watch);
    if (err) {
        close(fd);
        free(c);
        return err;
    }
    c->loop = l;
    c->side = side;
    side->refs++;
    c->fd = fd;
    c->errand.f = fleet_link_errand;
    c->member.destroy = fleet_link_destroy;
    c->in = (struct fleet_inbox){
        .most = sizeof(struct fleet_hello), .scratch = fleet_loop_scratch(l), .take = talk_take, .ctx = c};
    fleet_address_text(peer, c->text, sizeof(c->text));
    fleet_member_add(l, &c->member);
    *out = c;
    return 0;
}

/* The socket of a new connection, or a negative errno at once. */
static int talk_socket(const struct fleet_address *a, int *failure)
{
    int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return gw_error_errno(-errno, "socket");
    *failure = 0;
    if (connect(fd, (const struct sockaddr *)&a->at, a->bytes) && errno != EINPROGRESS) *failure = -errno;
    return fd;
}

int fleet_dial(struct fleet_loop *l, const struct fleet_conn_opts *opts, const char *address,
               const struct fleet_handler *handler, void *ctx, struct fleet_conn **out)
{
    struct fleet_address a;
    struct fleet_side *side;
    struct fleet_conn *c;
    int failure = 0, err = fleet_address_read(address, false, &a);
    if (!err && !opts->token && !fleet_address_loopback(&a))
        err = gw_error(-EACCES, "%s: without a token, only peers on this host; give --token-file", address);
    if (!err) err = fleet_side_make(opts, &side);
    if (err) return err;
    int fd = talk_socket(&a, &failure);
    err = fd < 0 ? fd : fleet_talk_make(l, side, fd, &a, &c);
    fleet_side_release(side);
    if (err) return err;
    c->handler = *handler;
    c->ctx = ctx;
    c->dialled = true;
    c->failure = failure;
    if (failure) fleet_errand_queue(l, &c->errand);
    c->writes = true;
    fleet_watch_events(l, c->watch, EPOLLOUT);
    *out = c;
    return 0;
}
