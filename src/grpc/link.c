/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the connection to a gRPC server: connects, sends, receives, and ends late calls. */
#include "src/grpc/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/grpc/rpc.h"

#define AGAIN_NS  100000000u /* until a server that was gone is looked for again, and at most */
#define MAX_AGAIN 1000000000u
#define ROOM      (64u << 10)
#define LONG_NS   1000000000u /* that a thread sleeps at most before it looks again */
#define READS     64          /* of one turn: a server that never stops sending stops no one */

int gw_link_open(const struct gw_link_opts *opts, struct gw_link *l)
{
    *l = (struct gw_link){.opts = *opts, .h2.fd = -1, .dial.fd = -1, .room = malloc(ROOM)};
    int err = l->room ? 0 : gw_error_errno(-ENOMEM, "client");
    if (!err && opts->encrypted) err = gw_dial_encryption(opts->ca_file, &l->tls);
    if (err) gw_link_close(l);
    return err;
}

static void drop_connection(struct gw_link *l)
{
    gw_dial_end(&l->dial);
    gw_h2_close(&l->h2);
    if (l->h2.fd >= 0) close(l->h2.fd);
    l->h2 = (struct gw_h2){.fd = -1};
    l->is_going = 0;
}

void gw_link_close(struct gw_link *l)
{
    if (!l->room) return;
    drop_connection(l);
    SSL_CTX_free(l->tls);
    free(l->room);
    *l = (struct gw_link){0};
}

/* ---- connecting ---- */

/* There is no connection, and its calls will have no answer. */
static void grpc_link_lose(struct gw_link *l, int err, const char *why)
{
    int was_open = l->h2.fd >= 0 && l->h2.shaken;
    /* A server that takes no more calls has said why. */
    if (!l->is_going || !*l->why) {
        l->error = err;
        snprintf(l->why, sizeof(l->why), "%s", why);
    }
    drop_connection(l);
    l->pause = was_open ? 0 : !l->pause ? AGAIN_NS : l->pause < MAX_AGAIN / 2 ? 2 * l->pause : MAX_AGAIN;
    l->again = gw_deadline(l->pause);
    for (struct gw_rpc *r = l->calls; r; r = r->next) {
        r->stream = 0;
        gw_rpc_lost(r, l->why);
    }
}

int gw_link_connect(struct gw_link *l)
{
    const char *why = NULL;
    if (l->is_going && !l->calls) drop_connection(l);
    if (l->h2.session) return 0;
    if (gw_deadline(0) < l->again) return l->error;
    l->why[0] = 0;
    l->since = gw_deadline(0);
    int err = gw_rpc_session(l);
    if (err) why = strerror(-err);
    if (!err) err = gw_dial_begin(&l->dial, l->opts.address ? l->opts.address : l->opts.authority, &why);
    if (err) grpc_link_lose(l, err, why);
    return err;
}

bool gw_link_is_up(const struct gw_link *l)
{
    return l->h2.session && l->h2.shaken && !l->is_going;
}

void gw_link_drop(struct gw_link *l, int err, const char *why)
{
    l->is_going = 0; /* what the caller says counts */
    if (l->h2.session) grpc_link_lose(l, err, why);
}

static void grpc_link_connected(struct gw_link *l)
{
    l->h2.fd = l->dial.fd;
    l->dial.fd = -1;
    gw_dial_end(&l->dial);
    l->h2.shaken = !l->tls;
    l->h2.stuck = 0;
    int err = l->tls ? gw_h2_encrypt(&l->h2, l->tls, 0) : 0;
    if (!err && l->tls) err = gw_dial_expect(l->h2.ssl, l->opts.authority);
    if (err) grpc_link_lose(l, err, strerror(-err));
}

static void shake(struct gw_link *l)
{
    char why[GW_RPC_WHY];
    const unsigned char *protocol = NULL;
    unsigned n = 0;
    int err = gw_h2_shake(&l->h2);
    if (err == -EAGAIN) return;
    if (err) {
        int mistrusted = gw_dial_tls_error(l->h2.ssl, why, sizeof(why));
        grpc_link_lose(l, mistrusted ? -EACCES : err, why);
        return;
    }
    SSL_get0_alpn_selected(l->h2.ssl, &protocol, &n);
    if (!gw_h2_is(protocol, n, "h2")) grpc_link_lose(l, -EPROTO, "it does not speak HTTP/2");
}

static void go_on_connecting(struct gw_link *l)
{
    if (l->dial.fd >= 0) {
        int err = gw_dial_next(&l->dial);
        if (!err)
            grpc_link_connected(l);
        else if (err != -EAGAIN)
            grpc_link_lose(l, err, strerror(-err));
    }
    if (l->h2.fd >= 0 && !l->h2.shaken) shake(l);
    int connects = l->dial.fd >= 0 || (l->h2.fd >= 0 && !l->h2.shaken);
    if (connects && gw_deadline(0) - l->since > l->opts.timeout_ns)
        grpc_link_lose(l, -ETIMEDOUT, "no connection in time");
}

/* ---- sending and receiving ---- */

static void exchange(struct gw_link *l)
{
    int err = gw_h2_send(&l->h2);
    if (!err || err == -EAGAIN) {
        int reads = 0;
        do err = gw_h2_receive(&l->h2, l->room, ROOM);
        while (!err && ++reads < READS);
        if (reads) l->heard = gw_deadline(0);
        if (!err || err == -EAGAIN) err = gw_h2_send(&l->h2);
    }
    l->pause = 0;
    if (err && err != -EAGAIN)
        grpc_link_lose(l, -ECONNRESET,
                       err == -EPROTO ? "what it sends is no HTTP/2" : "Connection reset by peer");
    else if (!nghttp2_session_want_read(l->h2.session) && !nghttp2_session_want_write(l->h2.session))
        grpc_link_lose(l, -ECONNRESET, "it has closed the connection");
}

static uint32_t grpc_link_under_way(const struct gw_link *l)
{
    uint32_t n = 0;
    for (const struct gw_rpc *r = l->calls; r; r = r->next) n += !r->seen;
    return n;
}

/* Ends calls whose time is over; returns when the next one's is. */
static uint64_t see_deadlines(struct gw_link *l)
{
    uint64_t first = GW_NEVER, now = gw_deadline(0);
    for (struct gw_rpc *r = l->calls; r; r = r->next) {
        if (r->seen || r->deadline == GW_NEVER) continue;
        if (now >= r->deadline)
            gw_rpc_late(r);
        else if (r->deadline < first)
            first = r->deadline;
    }
    return first;
}

int gw_link_fd(const struct gw_link *l, short *events)
{
    int connects = l->dial.fd >= 0;
    *events = connects ? POLLOUT : l->h2.stuck ? POLLIN | POLLOUT : POLLIN;
    return connects ? l->dial.fd : l->h2.fd;
}

static void grpc_link_sleep_until_news(const struct gw_link *l, uint64_t until)
{
    uint64_t now = gw_deadline(0), ns = until > now ? until - now : 0;
    struct pollfd p;
    p.fd = gw_link_fd(l, &p.events);
    if (ns > LONG_NS) ns = LONG_NS;
    const struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    ppoll(&p, 1, &left, NULL);
}

uint64_t gw_link_step(struct gw_link *l)
{
    uint64_t first = see_deadlines(l);
    if (l->h2.session && (l->h2.fd < 0 || !l->h2.shaken)) go_on_connecting(l);
    if (l->h2.session && l->h2.shaken) exchange(l);
    if (!l->h2.session || l->h2.shaken) return first;
    uint64_t late = l->since + l->opts.timeout_ns;
    return late < first ? late : first;
}

void gw_link_pump(struct gw_link *l, uint64_t deadline_ns)
{
    uint32_t calls = grpc_link_under_way(l);
    for (;;) {
        uint64_t first = gw_link_step(l);
        if (grpc_link_under_way(l) < calls || gw_deadline(0) >= deadline_ns) return;
        grpc_link_sleep_until_news(l, first < deadline_ns ? first : deadline_ns);
    }
}
