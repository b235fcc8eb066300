/* SPDX-License-Identifier: Apache-2.0 */
/* agent_life.c: an agent's beginning and end. */
#include "src/fleet/worker/agent_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

/* ---- options */

static int agent_text(char *to, size_t size, const char *from, const char *what)
{
    if (!from || !*from || strlen(from) >= size)
        return gw_error(-EINVAL, "%s: %s: give 1 to %zu bytes", what, from ? from : "", size - 1);
    snprintf(to, size, "%s", from);
    return fleet_text_ok(to, size) ? 0 : gw_error(-EINVAL, "%s: not UTF-8 without control characters", what);
}

static int agent_controllers(struct fleet_agent *a, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        if (!n || n >= FLEET_ADDRESS || a->ncontrollers == AGENT_ADDRESSES)
            return gw_error(-EINVAL, "controllers %s: give up to %u of HOST:PORT, with commas", list,
                            AGENT_ADDRESSES);
        char *to = a->controllers[a->ncontrollers++];
        memcpy(to, list, n);
        const char *colon = strrchr(to, ':');
        if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
            return gw_error(-EINVAL, "controller %s: give HOST:PORT", to);
        list += n + (list[n] == ',');
    }
    return 0;
}

static int agent_options(struct fleet_agent *a, const struct fleet_agent_opts *o)
{
    a->o = *o;
    int err = agent_text(a->fleet, sizeof(a->fleet), o->fleet, "the fleet's name");
    if (!err) err = agent_text(a->name, sizeof(a->name), o->name, "the worker's name");
    if (!err) err = agent_controllers(a, o->controllers);
    if (!err && o->token && !(a->token = strdup(o->token))) err = gw_error(-ENOMEM, "no memory");
    if (!err && getrandom(a->id, sizeof(a->id), 0) != sizeof(a->id))
        err = gw_error_errno(-errno, "no random numbers");
    memcpy(&a->random.state, a->id, sizeof(a->random.state));
    a->random.state |= 1;
    return err;
}

/* What clients are told: the address that was given, else the one it listens on with the port that it got. */
static int agent_address(struct fleet_agent *a)
{
    const char *colon = strrchr(a->o.listen, ':');
    if (a->o.address)
        return agent_text(a->facts.address, sizeof(a->facts.address), a->o.address,
                          "the data port's address");
    if (!strncmp(a->o.listen, "0.0.0.0:", 8) || !strncmp(a->o.listen, "[::]:", 5))
        return gw_error(-EINVAL, "%s is no address that clients could use: say also at which they reach it",
                        a->o.listen);
    int n = snprintf(a->facts.address, sizeof(a->facts.address), "%.*s:%u", (int)(colon - a->o.listen),
                     a->o.listen, fleet_listener_port(a->listener));
    return n < (int)sizeof(a->facts.address) ? 0 : gw_error(-EINVAL, "%s is too long", a->o.listen);
}

/* ---- life */

static void agent_free(struct fleet_agent *a)
{
    fleet_listener_close(a->listener);
    fleet_handover_close(a->done);
    free(a->lease);
    free(a->token);
    free(a);
}

int fleet_agent_create(const struct fleet_agent_opts *opts, struct fleet_agent **out)
{
    struct fleet_agent *a = calloc(1, sizeof(*a));
    if (!a) return gw_error(-ENOMEM, "no memory for a worker");
    agent_ring_init(&a->moves);
    agent_ring_init(&a->clients);
    agent_ring_init(&a->orphans);
    int err = agent_options(a, opts);
    if (!err) err = fleet_handover_create(opts->loop, &a->done);
    if (!err) err = agent_door_open(a);
    if (!err) opts->engine->ops->facts(opts->engine, &a->facts);
    if (!err) err = agent_address(a);
    if (err) {
        agent_free(a);
        return err;
    }
    agent_control_start(a);
    *out = a;
    return 0;
}

void fleet_agent_destroy(struct fleet_agent *a)
{
    if (!a) return;
    a->left = true;
    agent_leave_stop(a);
    fleet_timer_clear(a->o.loop, &a->lease_timer);
    agent_control_stop(a, "this worker ends");
    agent_door_close(a, "this worker ends");
    /* The engine ends all that is under way. What it hands over is taken before the engine is gone: its
     * outputs are its own until then. */
    struct fleet_engine *e = a->o.engine;
    e->ops->stop(e);
    fleet_handover_run(a->done);
    e->ops->destroy(e);
    agent_free(a);
}

void fleet_agent_view(const struct fleet_agent *a, struct fleet_agent_view *v)
{
    memset(v, 0, sizeof(*v));
    memcpy(v->id, a->id, sizeof(v->id));
    snprintf(v->address, sizeof(v->address), "%s", a->facts.address);
    if (a->welcome) snprintf(v->leader, sizeof(v->leader), "%s", a->dialled);
    v->term = a->term;
    v->leases = a->live;
    v->clients = a->nclients;
    v->calls = a->ncalls;
    v->moves = a->nmoves;
    v->facts = a->facts;
}
