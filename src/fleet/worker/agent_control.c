/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_control.c: the connection to the leader. The agent dials the one that the registry names, else the
 * one that another controller named, else the next of its list. A leader with a smaller term than the
 * largest seen is an old one, which does not know yet that it leads no more.
 */
#include "src/fleet/worker/agent_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#define CONTROL_FIRST_BACKOFF (20 * AGENT_MS)
#define CONTROL_MAX_BACKOFF   AGENT_SECOND
#define CONTROL_PATIENCE      (5 * AGENT_SECOND) /* for WELCOME */
#define CONTROL_SILENT        (2 * AGENT_SECOND)
#define CONTROL_GROW          AGENT_SECOND /* between two looks for new models */

static void agent_control_dial(void *ctx);

/* Dials again after `wait_ns`, or later if attempts have failed lately: from half to all of the backoff, so
 * that a thousand workers do not come in one moment. */
static void agent_control_again(struct fleet_agent *a, int64_t wait_ns)
{
    int64_t backoff = a->backoff_ns / 2 + (int64_t)(sim_unit(&a->random) * (double)a->backoff_ns / 2);
    a->backoff_ns = 2 * a->backoff_ns > CONTROL_MAX_BACKOFF ? CONTROL_MAX_BACKOFF : 2 * a->backoff_ns;
    fleet_timer_set(a->o.loop, &a->dial_timer, agent_now(a) + (wait_ns > backoff ? wait_ns : backoff),
                    agent_control_dial, a);
}

/* Nothing of this connection counts any more. */
static void agent_control_gone(struct fleet_agent *a)
{
    a->control = NULL;
    a->open = a->welcome = false;
    fleet_timer_clear(a->o.loop, &a->dial_timer);
    fleet_timer_clear(a->o.loop, &a->grow_timer);
    agent_tell_stop(a);
    agent_moves_forget(a);
}

/* Ends the connection and tries elsewhere. */
static void agent_control_leave(struct fleet_agent *a, int err, const char *why, int64_t wait_ns)
{
    if (a->control) fleet_conn_close(a->control, err, why);
    agent_control_gone(a);
    agent_control_again(a, wait_ns);
}

/* One that leads no more may be cut off from etcd, and not know. It sends its clients to the new one then. */
static void agent_control_name_leader(struct fleet_agent *a)
{
    struct fleet_elsewhere e = {0};
    if (!a->control || !a->open || !a->leader[0] || !strcmp(a->leader, a->dialled)) return;
    snprintf(e.leader, sizeof(e.leader), "%s", a->leader);
    fleet_send(a->control, FLEET_ELSEWHERE, 0, &e, sizeof(e), NULL, 0, NULL);
}

/* ---- what a leader learns first */

static void agent_control_tell_all(struct fleet_agent *a)
{
    const struct fleet_engine *e = a->o.engine;
    struct fleet_has_model m;
    for (uint32_t i = 0; i < a->facts.models && a->control; i++) {
        e->ops->model(e, i, &m);
        if (fleet_send(a->control, FLEET_HAS_MODEL, 0, &m, sizeof(m), NULL, 0, NULL)) return;
    }
    agent_leases_tell(a);
    agent_send(a, FLEET_READY, 0, NULL, 0);
    if (a->leaving) agent_send(a, FLEET_LEAVES, 0, NULL, 0);
}

/* The engine has new models: the leader learns of them by another WORKER, on another connection. */
static void agent_control_grow(void *ctx)
{
    struct fleet_agent *a = ctx;
    struct fleet_hello_worker f;
    a->o.engine->ops->facts(a->o.engine, &f);
    if (f.models == a->facts.models) {
        fleet_timer_set(a->o.loop, &a->grow_timer, agent_now(a) + CONTROL_GROW, agent_control_grow, a);
        return;
    }
    agent_say(a, "has %u models now, not %u", f.models, a->facts.models);
    a->facts.models = f.models;
    agent_control_leave(a, 0, "there are new models", 0);
}

static void agent_control_welcome(struct fleet_agent *a, const struct fleet_welcome *w)
{
    char why[FLEET_WHY];
    if (w->term < a->term) {
        snprintf(why, sizeof(why), "term %llu is over: term %llu has been seen", (unsigned long long)w->term,
                 (unsigned long long)a->term);
        agent_say(a, "the controller at %s leads no more: %s", a->dialled, why);
        agent_control_name_leader(a);
        agent_control_leave(a, -ESTALE, why, 0);
        return;
    }
    if (w->term > a->term || !a->welcome)
        agent_say(a, "the controller at %s leads, with term %llu", a->dialled, (unsigned long long)w->term);
    a->term = w->term;
    a->troubled = false;
    a->backoff_ns = CONTROL_FIRST_BACKOFF;
    fleet_timer_clear(a->o.loop, &a->dial_timer);
    if (!a->welcome) {
        a->welcome = true;
        agent_control_tell_all(a);
        fleet_timer_set(a->o.loop, &a->grow_timer, agent_now(a) + CONTROL_GROW, agent_control_grow, a);
    }
    agent_tell_start(a, w);
}

static void agent_control_elsewhere(struct fleet_agent *a, const struct fleet_elsewhere *e)
{
    bool known = fleet_text_ok(e->leader, sizeof(e->leader)) && e->leader[0];
    int64_t wait = known || e->retry_ns < 0 ? 0 : e->retry_ns;
    if (known && strcmp(e->leader, a->dialled)) snprintf(a->hint, sizeof(a->hint), "%s", e->leader);
    agent_control_leave(a, 0, NULL, wait > CONTROL_MAX_BACKOFF ? CONTROL_MAX_BACKOFF : wait);
}

/* ---- the connection's handler */

static void agent_control_open(void *ctx, struct fleet_conn *c)
{
    struct fleet_agent *a = ctx;
    a->open = true;
    fleet_send(c, FLEET_WORKER, 0, &a->facts, sizeof(a->facts), NULL, 0, NULL);
}

static void agent_control_late(void *ctx)
{
    struct fleet_agent *a = ctx;
    agent_say(a, "the controller at %s says neither WELCOME nor ELSEWHERE", a->dialled);
    agent_control_leave(a, -ETIMEDOUT, "no WELCOME came", 0);
}

/* Whether the body holds the struct; otherwise the connection is ended. */
static const void *agent_control_body(struct fleet_agent *a, const struct fleet_frame *f, const void *body,
                                      size_t size)
{
    if (f->bytes >= size) return body;
    agent_say(a, "the controller at %s sent a message that is too short", a->dialled);
    agent_control_leave(a, -EBADMSG, "a message is too short", 0);
    return NULL;
}

static void agent_control_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f,
                                  const void *body)
{
    struct fleet_agent *a = ctx;
    const void *b = NULL;
    (void)c;
    switch (f->kind) {
    case FLEET_WELCOME:
        if ((b = agent_control_body(a, f, body, sizeof(struct fleet_welcome)))) agent_control_welcome(a, b);
        break;
    case FLEET_ELSEWHERE:
        if ((b = agent_control_body(a, f, body, sizeof(struct fleet_elsewhere))))
            agent_control_elsewhere(a, b);
        break;
    case FLEET_TARGETED: agent_write_targeted(a); break;
    case FLEET_ACTION:
        if ((b = agent_control_body(a, f, body, sizeof(struct fleet_act)))) agent_moves_action(a, f->seq, b);
        break;
    case FLEET_LEASE:
        if ((b = agent_control_body(a, f, body, sizeof(struct fleet_lease)))) agent_leases_set(a, f->seq, b);
        break;
    default: break; /* of a newer version */
    }
}

static void agent_control_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct fleet_agent *a = ctx;
    if (c != a->control) return;
    if (a->welcome)
        agent_say(a, "lost the controller at %s: %s; what is leased is served until its leases end",
                  a->dialled, why ? why : "it is gone");
    else if (!a->troubled)
        agent_say(a, "the controller at %s%s: %s; trying again", a->dialled,
                  err == -EACCES ? " refuses this worker" : "", why ? why : "it is gone");
    a->troubled = !a->welcome;
    agent_control_gone(a);
    agent_control_again(a, 0);
}

static const struct fleet_handler agent_control_handler = {agent_control_open, agent_control_message,
                                                           agent_control_closed};

/* ---- dialling */

/* Where to go next; "": nowhere. */
static void agent_control_choose(struct fleet_agent *a)
{
    const char *to = a->leader;
    if (!*to) to = a->hint;
    if (!*to && a->ncontrollers) to = a->controllers[a->next_controller++ % a->ncontrollers];
    snprintf(a->dialled, sizeof(a->dialled), "%s", to);
    a->hint[0] = 0;
}

static void agent_control_dial(void *ctx)
{
    struct fleet_agent *a = ctx;
    if (a->control) {
        agent_control_late(a);
        return;
    }
    agent_control_choose(a);
    if (!a->dialled[0]) return; /* the registry will say */
    const struct fleet_conn_opts opts = {
        .role = FLEET_IS_WORKER,
        .peers = 1u << FLEET_IS_CONTROLLER,
        .fleet = a->fleet,
        .name = a->name,
        .id = a->id,
        .token = a->token,
        .backlog = (size_t)(16 << 20) + (size_t)a->facts.models * 2 * sizeof(struct fleet_has_model),
        .silent_ns = a->o.silent_ns ? a->o.silent_ns : CONTROL_SILENT,
    };
    int err = fleet_dial(a->o.loop, &opts, a->dialled, &agent_control_handler, a, &a->control);
    if (err) {
        if (!a->troubled) agent_say(a, "cannot reach a controller: %s", gw_last_error());
        a->troubled = true;
        agent_control_gone(a);
        agent_control_again(a, 0);
        return;
    }
    a->connection++;
    fleet_timer_set(a->o.loop, &a->dial_timer, agent_now(a) + CONTROL_PATIENCE, agent_control_dial, a);
}

/* ---- for the other files */

void agent_control_start(struct fleet_agent *a)
{
    a->backoff_ns = CONTROL_FIRST_BACKOFF;
    fleet_timer_set(a->o.loop, &a->dial_timer, agent_now(a), agent_control_dial, a);
}

void agent_control_stop(struct fleet_agent *a, const char *why)
{
    if (a->control) fleet_conn_close(a->control, 0, why);
    agent_control_gone(a);
}

void fleet_agent_leader(struct fleet_agent *a, const char *address, uint64_t term)
{
    if (term > a->term) a->term = term;
    snprintf(a->leader, sizeof(a->leader), "%s", address);
    if (a->left || !*address || (a->control && !strcmp(address, a->dialled))) return;
    a->backoff_ns = CONTROL_FIRST_BACKOFF;
    if (a->control) {
        agent_control_name_leader(a);
        fleet_conn_close(a->control, 0, "another controller leads");
        agent_control_gone(a);
    }
    fleet_timer_set(a->o.loop, &a->dial_timer, agent_now(a), agent_control_dial, a);
}
