/* SPDX-License-Identifier: Apache-2.0 */
/* leader.c: the connection to the fleet's leader: from the addresses that the user gave, and from what
 * controllers say of the leader. A controller that is silent, or cannot help, is left for the next one. */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/client/impl.h"
#include "src/fleet/wire/address.h"

#define LEADER_PAUSE_NS   20000000
#define LEADER_LONGEST_NS FLEET_SECOND
#define LEADER_WELCOME_NS FLEET_SECOND         /* for the first word of a controller */
#define LEADER_SILENT_NS  (2ll * FLEET_SECOND) /* without a word, while requests wait for a lease */
#define LEADER_LOOK_NS    (FLEET_SECOND / 4)
#define LEADER_HOPS       3 /* from one controller to another that it names */
#define LEADER_BACKLOG    ((size_t)256 << 20)

void fleet_leader_opts(const struct fleet_client *c, uint8_t role, struct fleet_conn_opts *o)
{
    bool worker = role == FLEET_IS_WORKER;
    *o = (struct fleet_conn_opts){.role = FLEET_IS_CLIENT,
                                  .peers = 1u << role,
                                  .fleet = c->fleet,
                                  .name = c->name,
                                  .id = c->id,
                                  .token = c->token,
                                  .most = worker ? c->max_answer : 0,
                                  .backlog = worker ? LEADER_BACKLOG : 0,
                                  .silent_ns = worker ? 0 : LEADER_SILENT_NS,
                                  .handshake_ns = LEADER_WELCOME_NS};
}

/* ---- one controller after the other ---- */

static void leader_dial(void *ctx);

static void leader_dial_at(struct fleet_client *c, int64_t at)
{
    /* Without memory for a timer there is none for a connection either: dial at once. */
    if (fleet_timer_set(c->loop, &c->leader.timer, at, leader_dial, c)) leader_dial(c);
}

/* Whom to dial: "": none is known yet. */
static const char *leader_target(const struct fleet_leader *l)
{
    return l->leader[0] ? l->leader : l->addresses ? l->address[l->at] : l->found;
}

/* None of the addresses has brought us to a leader. What waits hears it if waiting cannot help. */
static void leader_none(struct fleet_client *c)
{
    struct fleet_leader *l = &c->leader;
    memcpy(c->stats.trouble, l->why, sizeof c->stats.trouble);
    l->refused = l->refusal;
    l->refusal = false;
    l->failed = 0;
    if (!l->refused) return;
    pthread_mutex_lock(&c->lock);
    struct fleet_client_model *m = c->all;
    pthread_mutex_unlock(&c->lock);
    for (; m; m = m->next)
        while (m->waiting.first) fleet_query_fail(m->waiting.first, -EACCES, l->why, 0);
}

/* A controller is not to be had, or refuses us. conn NULL: it could not be dialled, and `why` names it. */
static void leader_failed(struct fleet_client *c, const struct fleet_conn *conn, int err, const char *why)
{
    struct fleet_leader *l = &c->leader;
    bool refuses = err == -EACCES || err == -EPROTONOSUPPORT;
    if (!l->refusal && !conn) snprintf(l->why, sizeof l->why, "%s", why);
    if (!l->refusal && conn)
        snprintf(l->why, sizeof l->why, "controller %s%s: %s", fleet_conn_text(conn),
                 refuses ? " refuses this client" : "", why);
    l->refusal |= refuses;
    if (++l->failed >= l->addresses) leader_none(c);
}

/* A controller knows us, whether it leads or not. */
static void leader_knows_us(struct fleet_client *c)
{
    struct fleet_leader *l = &c->leader;
    l->failed = 0;
    l->refusal = l->refused = false;
    l->why[0] = c->stats.trouble[0] = 0;
}

/* This one is of no use: the next, at once if it is another one, else after a pause. */
static void leader_next(struct fleet_client *c)
{
    struct fleet_leader *l = &c->leader;
    int64_t now = fleet_loop_now(c->loop);
    l->conn = NULL;
    l->welcome = false;
    l->missed_at = 0;
    c->stats.has_controller = 0;
    if (l->leader[0])
        l->leader[0] = 0; /* the address that was named is gone: ask the others */
    else if (l->addresses)
        l->at = (l->at + 1) % l->addresses;
    l->pause_ns = l->pause_ns ? 2 * l->pause_ns : LEADER_PAUSE_NS;
    if (l->pause_ns > LEADER_LONGEST_NS) l->pause_ns = LEADER_LONGEST_NS;
    leader_dial_at(c, now + l->pause_ns);
}

static void leader_leave(struct fleet_client *c, int err, const char *why)
{
    if (why) leader_failed(c, c->leader.conn, err, why);
    fleet_conn_close(c->leader.conn, err, why);
    leader_next(c);
}

/* ---- looking after it ---- */

static bool leader_is_missed(struct fleet_client *c)
{
    pthread_mutex_lock(&c->lock);
    const struct fleet_client_model *m = c->all;
    pthread_mutex_unlock(&c->lock);
    for (; m; m = m->next)
        if (m->waiting.n && !m->held[0].n && !m->held[1].n) return true;
    return false;
}

static void leader_look(void *ctx)
{
    struct fleet_client *c = ctx;
    struct fleet_leader *l = &c->leader;
    int64_t now = fleet_loop_now(c->loop);
    if (!l->welcome) {
        leader_leave(c, -ETIMEDOUT, "no word after the handshake");
        return;
    }
    if (!leader_is_missed(c) || l->heard_at > l->missed_at)
        l->missed_at = now;
    else if (now - l->missed_at > LEADER_SILENT_NS) {
        leader_leave(c, -ETIMEDOUT, "demands get no answer");
        return;
    }
    if (fleet_timer_set(c->loop, &l->timer, now + LEADER_LOOK_NS, leader_look, c))
        leader_leave(c, -ENOMEM, NULL);
}

/* ---- what it says ---- */

static void leader_welcome(struct fleet_client *c)
{
    struct fleet_leader *l = &c->leader;
    int64_t now = fleet_loop_now(c->loop);
    l->welcome = true;
    leader_knows_us(c);
    l->hops = 0;
    l->pause_ns = 0;
    l->missed_at = now;
    c->stats.has_controller = 1;
    memcpy(c->stats.controller, leader_target(l), FLEET_ADDRESS);
    fleet_demand_all(c);
}

static void leader_elsewhere(struct fleet_client *c, const struct fleet_elsewhere *e)
{
    struct fleet_leader *l = &c->leader;
    bool named = fleet_text_ok(e->leader, sizeof e->leader) && e->leader[0];
    leader_knows_us(c);
    fleet_conn_close(l->conn, 0, NULL);
    leader_next(c);
    if (!named || l->hops == LEADER_HOPS) {
        l->hops = 0;
        return;
    }
    l->hops++;
    memcpy(l->leader, e->leader, sizeof l->leader);
    leader_dial_at(c, fleet_loop_now(c->loop));
}

static void leader_sheds(struct fleet_client *c, const struct fleet_sheds *s)
{
    struct fleet_client_model *m = fleet_client_named(c, s->model);
    if (m && s->deadline_ns > 0) fleet_admit_set(&m->admit, s->deadline_ns, s->admitted);
}

static void leader_nothing(struct fleet_client *c, const struct fleet_nothing *n)
{
    struct fleet_client_model *m = fleet_client_named(c, n->model);
    int64_t now = fleet_loop_now(c->loop), longest = 10ll * FLEET_SECOND;
    if (!m) return;
    m->retry_ns = n->retry_ns > 0 && n->retry_ns < longest ? n->retry_ns : FLEET_SECOND;
    m->why = "the controller has no lease to give now";
    if (n->error != -ENOENT) return;
    m->absent_until = now + m->retry_ns;
    while (m->waiting.first)
        fleet_query_fail(m->waiting.first, -ENOENT, "no worker of the fleet has such a model", m->retry_ns);
}

static bool leader_hears(struct fleet_client *c, const struct fleet_frame *f, const void *body)
{
    const struct fleet_granted *g;
    const struct fleet_revoked *r;
    const struct fleet_sheds *s;
    const struct fleet_nothing *n;
    switch (f->kind) {
    case FLEET_WELCOME: leader_welcome(c); return true;
    case FLEET_GRANTED:
        if ((g = FLEET_BODY(struct fleet_granted, f, body))) fleet_lease_granted(c, f->seq, g);
        return g;
    case FLEET_REVOKED:
        if ((r = FLEET_BODY(struct fleet_revoked, f, body))) fleet_lease_revoked(c, r);
        return r;
    case FLEET_SHEDS:
        if ((s = FLEET_BODY(struct fleet_sheds, f, body))) leader_sheds(c, s);
        return s;
    case FLEET_NOTHING:
        if ((n = FLEET_BODY(struct fleet_nothing, f, body))) leader_nothing(c, n);
        return n;
    default: return false;
    }
}

/* ---- the connection ---- */

static void leader_open(void *ctx, struct fleet_conn *conn)
{
    (void)ctx;
    (void)conn; /* it says WELCOME or ELSEWHERE */
}

static void leader_message(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f, const void *body)
{
    struct fleet_client *c = ctx;
    const struct fleet_elsewhere *e = FLEET_BODY(struct fleet_elsewhere, f, body);
    (void)conn;
    c->leader.heard_at = fleet_loop_now(c->loop);
    if (f->kind == FLEET_ELSEWHERE && e)
        leader_elsewhere(c, e);
    else if (f->kind == FLEET_ELSEWHERE || !leader_hears(c, f, body))
        leader_leave(c, -EPROTO, "a message that no controller sends to clients");
}

static void leader_closed(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    struct fleet_client *c = ctx;
    leader_failed(c, conn, err, why);
    leader_next(c);
}

static const struct fleet_handler leader_handler = {leader_open, leader_message, leader_closed};

static void leader_dial(void *ctx)
{
    struct fleet_client *c = ctx;
    struct fleet_leader *l = &c->leader;
    struct fleet_conn_opts o;
    fleet_leader_opts(c, FLEET_IS_CONTROLLER, &o);
    if (!leader_target(l)[0]) return; /* etcd will tell */
    int err = fleet_dial(c->loop, &o, leader_target(l), &leader_handler, c, &l->conn);
    if (err) {
        leader_failed(c, NULL, err, gw_last_error());
        leader_next(c);
        return;
    }
    int64_t at = fleet_loop_now(c->loop) + 2 * LEADER_WELCOME_NS;
    if (fleet_timer_set(c->loop, &l->timer, at, leader_look, c)) leader_leave(c, -ENOMEM, NULL);
}

/* ---- addresses ---- */

void fleet_leader_found(struct fleet_client *c, const char *address)
{
    struct fleet_leader *l = &c->leader;
    if (!strcmp(l->found, address)) return;
    memcpy(l->found, address, sizeof l->found);
    l->leader[0] = 0;
    l->pause_ns = 0;
    l->failed = 0;
    if (l->conn) leader_leave(c, 0, NULL);
    leader_dial_at(c, fleet_loop_now(c->loop));
}

void fleet_leader_trouble(struct fleet_client *c, const char *why)
{
    struct fleet_leader *l = &c->leader;
    if (l->welcome) return;
    snprintf(l->why, sizeof l->why, "%s", why);
    memcpy(c->stats.trouble, l->why, sizeof c->stats.trouble);
}

static int leader_addresses(struct fleet_leader *l, const char *controllers)
{
    for (const char *at = controllers; *at;) {
        size_t n = strcspn(at, ",");
        char(*more)[FLEET_ADDRESS] = realloc(l->address, (l->addresses + 1) * sizeof *more);
        if (!more) return gw_error_errno(-ENOMEM, "fleet client");
        l->address = more;
        snprintf(more[l->addresses], FLEET_ADDRESS, "%.*s", (int)n, at);
        if (n >= FLEET_ADDRESS || !fleet_address_ok(more[l->addresses++]))
            return gw_error(-EINVAL, "controller %.*s: give HOST:PORT, or [IPV6]:PORT", (int)n, at);
        at += n + (at[n] == ',');
    }
    return l->addresses ? 0 : gw_error(-EINVAL, "a fleet's controllers: HOST:PORT[,HOST:PORT]");
}

int fleet_leader_begin(struct fleet_client *c, const char *controllers, const char *etcd)
{
    if (etcd && !controllers) return fleet_found_begin(c, etcd);
    int err = leader_addresses(&c->leader, controllers ? controllers : "");
    if (!err) err = fleet_timer_set(c->loop, &c->leader.timer, 1, leader_dial, c);
    return err;
}

void fleet_leader_end(struct fleet_client *c)
{
    free(c->leader.address);
}
