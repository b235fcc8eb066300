/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's end, and what it sends. Frames of one turn leave at its end, and so do failures: no handler
 * is called within fleet_send. */
#include "src/fleet/wire/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* ---- the end */

static void link_free(struct fleet_conn *c)
{
    if (c->fd >= 0) close(c->fd);
    c->in.have = 0;
    c->out.from = c->out.to = 0;
    fleet_inbox_trim(&c->in);
    fleet_outbox_trim(&c->out);
    fleet_side_release(c->side);
    free(c);
}

void fleet_link_destroy(struct fleet_member *m)
{
    link_free((struct fleet_conn *)((char *)m - offsetof(struct fleet_conn, member)));
}

/* Nothing is heard or sent any more; the memory lasts until the end of the turn. */
void fleet_link_over(struct fleet_conn *c)
{
    c->state = FLEET_LINK_OVER;
    fleet_timer_clear(c->loop, &c->timer);
    if (c->watch) fleet_watch_drop(c->loop, c->watch);
    c->watch = NULL;
    if (c->left) c->left(c);
    c->left = NULL;
    close(c->fd);
    c->fd = -1;
    fleet_errand_queue(c->loop, &c->errand);
}

void fleet_link_fail(struct fleet_conn *c, int err, const char *why)
{
    bool told = c->state < FLEET_LINK_ENDS;
    if (c->state == FLEET_LINK_OVER) return;
    fleet_link_over(c);
    if (told && c->handler.closed) c->handler.closed(c->ctx, c, err, why);
}

static void link_say_goodbye(struct fleet_conn *c, int err, const char *why)
{
    struct fleet_goodbye g = {.error = err};
    if (c->state == FLEET_LINK_DIALS) return;
    snprintf(g.why, sizeof(g.why), "%s", why);
    while (!fleet_text_ok(g.why, sizeof(g.why))) g.why[strlen(g.why) - 1] = 0; /* a character that was cut */
    fleet_link_put(c, FLEET_GOODBYE, 0, &g, sizeof(g));
}

static void link_end_late(void *arg)
{
    fleet_link_over(arg);
}

void fleet_conn_close(struct fleet_conn *c, int err, const char *why)
{
    if (c->state >= FLEET_LINK_ENDS) return;
    if (why) link_say_goodbye(c, err, why);
    bool dials = c->state == FLEET_LINK_DIALS;
    c->state = FLEET_LINK_ENDS;
    if (dials || c->failure ||
        fleet_timer_set(c->loop, &c->timer, fleet_loop_now(c->loop) + SECOND, link_end_late, c))
        fleet_link_over(c);
    else
        fleet_errand_queue(c->loop, &c->errand);
}

void fleet_link_refuse(struct fleet_conn *c, int err, const char *why)
{
    void (*closed)(void *, struct fleet_conn *, int, const char *) = c->handler.closed;
    if (c->state >= FLEET_LINK_ENDS) return;
    fleet_conn_close(c, err, why);
    if (closed) closed(c->ctx, c, err, why);
}

/* ---- sending */

int fleet_link_put(struct fleet_conn *c, uint16_t kind, uint64_t seq, const void *body, size_t bytes)
{
    struct fleet_frame f = {.bytes = (uint32_t)bytes, .kind = kind, .seq = seq ? seq : ++c->seq};
    struct iovec v[] = {{&f, sizeof(f)}, {(void *)body, bytes}};
    int err = fleet_outbox_send(&c->out, c->fd, v, 2, c->side->opts.backlog);
    if (err) c->failure = err;
    fleet_errand_queue(c->loop, &c->errand);
    return err;
}

int fleet_send(struct fleet_conn *c, uint16_t kind, uint64_t seq, const void *body, size_t bytes,
               const void *tail, size_t tail_bytes, uint64_t *used)
{
    struct fleet_frame f = {
        .bytes = (uint32_t)(bytes + tail_bytes), .kind = kind, .seq = seq ? seq : c->seq + 1};
    struct iovec v[] = {{&f, sizeof(f)}, {(void *)body, bytes}, {(void *)tail, tail_bytes}};
    if (c->state != FLEET_LINK_OPEN || c->failure) return -ENOTCONN;
    if (bytes > FLEET_MAX_FRAME || tail_bytes > FLEET_MAX_FRAME - bytes) return -EMSGSIZE;
    int err = fleet_outbox_send(&c->out, c->fd, v, 3, c->side->opts.backlog);
    if (err) c->failure = err; /* its handler hears of it at the end of the turn, not within this call */
    if (!seq) c->seq++;
    if (used) *used = f.seq;
    fleet_errand_queue(c->loop, &c->errand);
    return err == -ENOBUFS || err == -ENOMEM || !err ? err : -ENOTCONN;
}

static const char *link_why(int err)
{
    return err == -ENOBUFS  ? "it does not read what we send"
           : err == -ENOMEM ? "no memory for what we send"
                            : strerror(-err);
}

void fleet_link_watch(struct fleet_conn *c, bool writes)
{
    if (c->writes == writes) return;
    c->writes = writes;
    int err = fleet_watch_events(c->loop, c->watch, EPOLLIN | (writes ? EPOLLOUT : 0));
    if (err) fleet_link_fail(c, err, "epoll_ctl");
}

void fleet_link_flush(struct fleet_conn *c)
{
    int err = c->failure ? c->failure : fleet_outbox_flush(&c->out, c->fd);
    if (err < 0) {
        fleet_link_fail(c, err, link_why(err));
        return;
    }
    /* Then the peer closes too. To close at once would take from it what it has not read. */
    if (!err && c->state == FLEET_LINK_ENDS) shutdown(c->fd, SHUT_WR);
    fleet_link_watch(c, err == 1);
}

void fleet_link_errand(struct fleet_errand *e)
{
    struct fleet_conn *c = (struct fleet_conn *)((char *)e - offsetof(struct fleet_conn, errand));
    if (c->state == FLEET_LINK_OVER) {
        fleet_member_remove(&c->member);
        link_free(c);
    } else if (c->state != FLEET_LINK_DIALS || c->failure) {
        fleet_link_flush(c);
    }
}

/* ---- what others ask */

const struct fleet_hello *fleet_conn_peer(const struct fleet_conn *c)
{
    return &c->theirs;
}

const char *fleet_conn_text(const struct fleet_conn *c)
{
    return c->text;
}

void *fleet_conn_ctx(const struct fleet_conn *c)
{
    return c->ctx;
}

void fleet_conn_set_ctx(struct fleet_conn *c, void *ctx)
{
    c->ctx = ctx;
}
