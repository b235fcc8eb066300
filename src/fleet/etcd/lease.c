/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a lease, keeps it alive, and takes another one when etcd has ended it. */
#include "src/fleet/etcd/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "etcd.pb-c.h"
#include "src/fleet/etcd/health.h"
#include "src/fleet/etcd/streams.h"
#include "src/grpc/call.h"
#include "src/server/grpc/wire/pack.h"

#define SECOND_NS  1000000000
#define MAX_TTL_S  1000000    /* that we believe */
#define AGAIN_NS   500000000u /* after a refusal */
#define GRANT_NS   5000000000
#define REVOKE_NS  2000000000
#define KEEP_ALIVE "/etcdserverpb.Lease/LeaseKeepAlive"

struct fleet_etcd_lease {
    struct fleet_etcd *e;
    int64_t ttl_s;    /* asked for */
    int64_t id, next; /* next: the one that is being asked for; 0: none */
    uint64_t ttl_ns;  /* that etcd gives */
    uint64_t until;   /* etcd does not end it before */
    uint64_t asked;   /* when what has no answer yet was sent; 0: nothing */
    struct fleet_timer timer;
    bool was_refused;
    struct fleet_etcd_call *call;
    struct fleet_etcd_stream stream;
    const struct fleet_etcd_lease_handler *handler;
    void *ctx;
};

static void lease_grant(struct fleet_etcd_lease *l);
static void lease_tick(void *ctx);

static void lease_wait(struct fleet_etcd_lease *l, uint64_t at)
{
    fleet_timer_set(l->e->loop, &l->timer, (int64_t)at, lease_tick, l);
}

/* ---- taking one ---- */

static uint64_t lease_ns(int64_t ttl_s)
{
    return (uint64_t)(ttl_s < MAX_TTL_S ? ttl_s : MAX_TTL_S) * SECOND_NS;
}

static void lease_held(struct fleet_etcd_lease *l, uint64_t ttl_ns)
{
    l->id = l->next;
    l->next = 0;
    l->ttl_ns = ttl_ns;
    l->until = l->asked + ttl_ns;
    lease_wait(l, l->asked + ttl_ns / 3);
    l->asked = 0;
    fleet_etcd_kick(l->e);
    l->handler->granted(l->ctx, l->id);
}

static void lease_granted(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_etcd_lease *l = ctx;
    l->call = NULL;
    bool is_refused = err == -EACCES || err == -ENOSPC || err == -EINVAL;
    if (is_refused && !l->was_refused && l->handler->refused) l->handler->refused(l->ctx, gw_last_error());
    l->was_refused = is_refused;
    /* It is there: an attempt whose answer was lost has made it, with this time or a longer one. */
    if (err == -EEXIST)
        lease_held(l, lease_ns(l->ttl_s));
    else if (err)
        lease_wait(l, gw_deadline(AGAIN_NS));
    else
        lease_held(l, lease_ns(a->ttl_s));
}

static void lease_grant(struct fleet_etcd_lease *l)
{
    const struct fleet_etcd_how how = {lease_granted, l, GRANT_NS, true};
    /* The number is ours, so that it may be asked for twice. etcd's are 63 bits long. */
    if (!l->next && getrandom(&l->next, sizeof(l->next), 0) == sizeof(l->next))
        l->next = (l->next & INT64_MAX) | 1;
    l->asked = gw_deadline(0);
    if (!l->next || fleet_etcd_grant(l->e, l->next, l->ttl_s, &how, &l->call))
        lease_wait(l, gw_deadline(AGAIN_NS));
}

/* ---- keeping it ---- */

static struct gw_grpc_message *lease_question(const struct fleet_etcd_lease *l)
{
    Etcd__LeaseKeepAliveRequest q = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    q.id = l->id;
    return gw_grpc_pack(&q.base);
}

static void lease_ready(void *owner)
{
    struct fleet_etcd_lease *l = owner;
    if (!l->id) return;
    l->asked = gw_deadline(0);
    gw_rpc_start_stream(&l->e->link, &l->stream.rpc, KEEP_ALIVE, lease_question(l));
    lease_wait(l, l->asked + fleet_etcd_patience(l->e));
}

/* There is none to keep, a renewal is due, or the answer to the last one is overdue. */
static void lease_tick(void *ctx)
{
    struct fleet_etcd_lease *l = ctx;
    if (!l->id) {
        if (!l->call) lease_grant(l);
        return;
    }
    if (!l->stream.rpc.link) return; /* it is asked for on the next connection */
    if (l->asked) {
        fleet_etcd_leave(l->e, true, "it is silent");
        lease_wait(l, gw_deadline(fleet_etcd_patience(l->e)));
        return;
    }
    l->asked = gw_deadline(0);
    gw_rpc_send(&l->e->link, &l->stream.rpc, lease_question(l));
    fleet_etcd_kick(l->e);
    lease_wait(l, l->asked + fleet_etcd_patience(l->e));
}

static void lease_lost(struct fleet_etcd_lease *l)
{
    int64_t id = l->id;
    gw_rpc_end(&l->e->link, &l->stream.rpc);
    l->id = 0;
    l->until = l->asked = 0;
    lease_wait(l, gw_deadline(0));
    l->handler->ended(l->ctx, id);
}

static void lease_message(void *owner, const uint8_t *message, size_t bytes)
{
    struct fleet_etcd_lease *l = owner;
    Etcd__LeaseKeepAliveResponse *r = etcd__lease_keep_alive_response__unpack(NULL, bytes, message);
    if (!r) return; /* the renewal stays without an answer */
    int64_t id = r->id, ttl_s = r->ttl;
    etcd__lease_keep_alive_response__free_unpacked(r, NULL);
    if (id != l->id || !l->id) return;
    if (ttl_s <= 0) {
        lease_lost(l);
        return;
    }
    if (!l->asked) return; /* an answer to nothing renews nothing */
    l->ttl_ns = lease_ns(ttl_s);
    l->until = l->asked + l->ttl_ns;
    lease_wait(l, l->asked + l->ttl_ns / 3);
    l->asked = 0;
    if (l->handler->renewed) l->handler->renewed(l->ctx);
}

static void lease_ended(void *owner, bool is_gone, const char *why)
{
    struct fleet_etcd_lease *l = owner;
    if (!l->id) return; /* what is asked for is a call of its own */
    l->asked = 0;
    if (!is_gone && strstr(why, "lease not found")) lease_lost(l);
}

/* ---- opening and closing ---- */

int fleet_etcd_lease_open(struct fleet_etcd *e, int64_t ttl_s, const struct fleet_etcd_lease_handler *handler,
                          void *ctx, struct fleet_etcd_lease **out)
{
    struct fleet_etcd_lease *l = calloc(1, sizeof(*l));
    if (!l) return gw_error_errno(-ENOMEM, "etcd");
    l->e = e;
    l->ttl_s = ttl_s;
    l->handler = handler;
    l->ctx = ctx;
    l->stream.ready = lease_ready;
    l->stream.message = lease_message;
    l->stream.ended = lease_ended;
    l->stream.owner = l;
    int err = fleet_timer_set(e->loop, &l->timer, (int64_t)gw_deadline(0), lease_tick, l);
    if (err) {
        free(l);
        return err;
    }
    fleet_etcd_stream_add(e, &l->stream);
    *out = l;
    return 0;
}

void fleet_etcd_lease_close(struct fleet_etcd_lease *l)
{
    if (!l) return;
    const struct fleet_etcd_how how = {.deadline_ns = REVOKE_NS, .again = true};
    if (l->call) fleet_etcd_cancel(l->call);
    fleet_timer_clear(l->e->loop, &l->timer);
    fleet_etcd_stream_drop(l->e, &l->stream);
    if (l->id || l->next) fleet_etcd_revoke(l->e, l->id ? l->id : l->next, &how, NULL);
    free(l);
}

int64_t fleet_etcd_lease_id(const struct fleet_etcd_lease *l)
{
    return l->id;
}

int64_t fleet_etcd_lease_until(const struct fleet_etcd_lease *l)
{
    return (int64_t)l->until;
}
