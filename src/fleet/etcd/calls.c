/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one question and one answer: they wait for a connection, are sent, sent again, and end. */
#include "src/fleet/etcd/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/etcd/health.h"
#include "src/fleet/etcd/status.h"
#include "src/grpc/call.h"
#include "src/server/grpc/wire/pack.h"

#define DEADLINE_NS 5000000000
#define MAX_REQUEST (16u << 20) /* bytes; etcd itself takes 1.5 MiB if not told otherwise */
#define PAUSE_NS    100000000u  /* before a call goes to a member that had no leader */

/* ---- lists ---- */

static void calls_leave(struct fleet_etcd_call *c)
{
    TAILQ_REMOVE(c->list, c, entry);
    if (c->list == &c->e->running) c->e->runs--;
    c->list = NULL;
}

static void calls_wait(struct fleet_etcd_call *c)
{
    struct fleet_etcd *e = c->e;
    if (c->list) calls_leave(c);
    c->list = &e->waiting;
    if (c->started)
        TAILQ_INSERT_HEAD(&e->waiting, c, entry);
    else
        TAILQ_INSERT_TAIL(&e->waiting, c, entry);
}

static void calls_free(struct fleet_etcd_call *c)
{
    struct fleet_etcd *e = c->e;
    if (c->list) calls_leave(c);
    fleet_timer_clear(e->loop, &c->timer);
    gw_rpc_end(&e->link, &c->rpc);
    free(c->message);
    free(c);
}

/* ---- how they end ---- */

static void calls_fail(struct fleet_etcd_call *c, int err)
{
    fleet_etcd_done *done = c->done;
    void *ctx = c->ctx;
    calls_free(c);
    if (done) done(ctx, err, NULL);
}

static void calls_late(void *call)
{
    struct fleet_etcd_call *c = call;
    fleet_etcd_kick(c->e);
    calls_fail(c, gw_error(-ETIMEDOUT, "etcd (%s) does not answer in time%s%s", c->e->all,
                           *c->e->why ? ": " : "", c->e->why));
}

static void calls_answered(struct fleet_etcd_call *c)
{
    struct gw_grpc_arena arena;
    struct fleet_etcd_answer a = {0};
    fleet_etcd_done *done = c->done;
    void *ctx = c->ctx;
    struct gw_grpc_message *m = gw_rpc_take(&c->rpc);
    gw_grpc_arena_open(&arena, m ? gw_grpc_message_length(m) : 0);
    bool is = m && c->read(gw_grpc_message_body(m), gw_grpc_message_length(m), &arena, &a);
    int err = is ? 0
                 : gw_error(-EPROTO, "etcd (%s): its answer to %s makes no sense", c->e->all,
                            strrchr(c->method, '/') + 1);
    calls_free(c);
    if (done) done(ctx, err, err ? NULL : &a);
    gw_grpc_arena_close(&arena);
    free(m);
}

static void calls_ended(struct fleet_etcd_call *c)
{
    struct fleet_etcd *e = c->e;
    char why[GW_RPC_WHY];
    gw_rpc_said(&c->rpc, why, sizeof(why));
    unsigned status = c->rpc.status;
    bool again = c->message != NULL;
    if (c->rpc.is_gone) {
        gw_rpc_end(&e->link, &c->rpc);
        if (again)
            calls_wait(c);
        else
            calls_fail(c, gw_error(-ECONNRESET, "etcd (%s): %s; it may have been done", e->all, why));
        return;
    }
    e->is_refused = fleet_etcd_errno(status, why) == -EACCES && status != GW_GRPC_OK;
    fleet_etcd_well(e);
    if (e->is_refused) {
        snprintf(e->why, sizeof(e->why), "%s", why);
        fleet_etcd_doubt(e);
    }
    if (status == GW_GRPC_OK) {
        calls_answered(c);
    } else if (status == GW_GRPC_UNAUTHENTICATED && e->user && again) {
        fleet_etcd_logout(e); /* the token was too old */
        gw_rpc_end(&e->link, &c->rpc);
        calls_wait(c);
    } else if (fleet_etcd_is_members_fault(status, why) && again) {
        gw_rpc_end(&e->link, &c->rpc);
        calls_wait(c);
        e->pause = gw_deadline(PAUSE_NS);
        fleet_etcd_leave(e, false, why);
    } else {
        calls_fail(c, gw_error(fleet_etcd_errno(status, why), "etcd (%s) refuses: %s", e->all, why));
    }
}

void fleet_etcd_calls_look(struct fleet_etcd *e)
{
    struct fleet_etcd_calls ended = TAILQ_HEAD_INITIALIZER(ended);
    struct fleet_etcd_call *c, *next;
    for (c = TAILQ_FIRST(&e->running); c; c = next) {
        next = TAILQ_NEXT(c, entry);
        if (!c->rpc.seen) continue;
        calls_leave(c);
        c->list = &ended;
        TAILQ_INSERT_TAIL(&ended, c, entry);
    }
    /* `done` may cancel others that have ended. */
    while ((c = TAILQ_FIRST(&ended))) {
        calls_leave(c);
        calls_ended(c);
    }
}

uint64_t fleet_etcd_calls_overdue(const struct fleet_etcd *e)
{
    const struct fleet_etcd_call *c = TAILQ_FIRST(&e->running);
    if (!c) return GW_NEVER;
    uint64_t since = c->started > e->link.heard ? c->started : e->link.heard;
    return since + fleet_etcd_patience(e);
}

/* ---- how they begin ---- */

static struct gw_grpc_message *calls_copy(const struct gw_grpc_message *m)
{
    struct gw_grpc_message *copy = gw_grpc_message_new(gw_grpc_message_length(m));
    if (copy) memcpy(copy->bytes, m->bytes, m->size);
    return copy;
}

static void calls_send(struct fleet_etcd *e, struct fleet_etcd_call *c)
{
    struct gw_grpc_message *m = c->again ? calls_copy(c->message) : c->message;
    if (!c->again) c->message = NULL;
    calls_leave(c);
    c->started = gw_deadline(0);
    int err = gw_rpc_start(&e->link, &c->rpc, c->method, m, c->deadline);
    if (err) {
        calls_fail(c, err);
        return;
    }
    c->list = &e->running;
    TAILQ_INSERT_TAIL(&e->running, c, entry);
    e->runs++;
}

void fleet_etcd_calls_start(struct fleet_etcd *e)
{
    struct fleet_etcd_call *c;
    while (e->runs < FLEET_ETCD_MAX_RUNNING && gw_link_is_up(&e->link) && (c = TAILQ_FIRST(&e->waiting)))
        if (e->is_ready || c == e->login)
            calls_send(e, c);
        else
            break;
}

int fleet_etcd_ask(struct fleet_etcd *e, const struct fleet_etcd_ask *ask, const struct fleet_etcd_how *how,
                   struct fleet_etcd_call **call)
{
    size_t bytes = protobuf_c_message_get_packed_size(ask->message);
    if (bytes > MAX_REQUEST)
        return gw_error(-EINVAL, "etcd: a request of %zu bytes; %u at most", bytes, MAX_REQUEST);
    struct fleet_etcd_call *c = calloc(1, sizeof(*c));
    struct gw_grpc_message *m = c ? gw_grpc_pack(ask->message) : NULL;
    if (!m) {
        free(c);
        return gw_error_errno(-ENOMEM, "etcd");
    }
    uint64_t ns = how->deadline_ns > 0 ? (uint64_t)how->deadline_ns : DEADLINE_NS;
    *c = (struct fleet_etcd_call){.e = e, .method = ask->method, .read = ask->read, .message = m};
    c->deadline = gw_deadline(ns);
    c->again = how->again;
    c->done = how->done;
    c->ctx = how->ctx;
    int err = fleet_timer_set(e->loop, &c->timer, (int64_t)c->deadline, calls_late, c);
    if (err) {
        free(m);
        free(c);
        return err;
    }
    calls_wait(c);
    if (call) *call = c;
    fleet_etcd_kick(e);
    return 0;
}

void fleet_etcd_cancel(struct fleet_etcd_call *call)
{
    struct fleet_etcd *e = call->e;
    calls_free(call);
    fleet_etcd_kick(e); /* to tell etcd, the link may have read answers of others */
}

void fleet_etcd_calls_close(struct fleet_etcd *e)
{
    struct fleet_etcd_call *c;
    while ((c = TAILQ_FIRST(&e->running))) calls_free(c);
    while ((c = TAILQ_FIRST(&e->waiting))) calls_free(c);
}
