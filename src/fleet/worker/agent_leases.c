/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_leases.c: the table of leases. The engine has the same one for its device; this one is what a new
 * leader is told. It lives as long as the worker: a lost leader ends no lease.
 */
#include "src/fleet/worker/agent_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>
#include <gpuwire/error.h>

#define LEASES_LOOK  (250 * AGENT_MS)      /* between looks for those that have ended */
#define LEASES_GRACE (100 * AGENT_MS)      /* of one that is taken back from a worker that leaves */
#define LEASES_MAX   (3600 * AGENT_SECOND) /* the longest lease */
enum { LEASES_FIRST = 64 };

static void leases_drop(struct fleet_agent *a, uint32_t number)
{
    struct agent_lease *l = &a->lease[number];
    GW_ASSERT(a->live && a->slots >= l->lease.slots);
    a->live--;
    a->slots -= l->lease.slots;
    a->o.engine->ops->lease(a->o.engine, &l->lease, 0);
    l->lease.key = 0;
}

void agent_leases_end(struct fleet_agent *a)
{
    int64_t now = agent_now(a), next = INT64_MAX;
    if (!a->live || now < a->next_end_at) return;
    for (uint32_t i = 0; i < a->leases; i++) {
        const struct agent_lease *l = &a->lease[i];
        if (l->lease.key && l->until_at <= now) leases_drop(a, i);
        if (l->lease.key && l->until_at < next) next = l->until_at;
    }
    a->next_end_at = next;
}

static void leases_look(void *ctx)
{
    struct fleet_agent *a = ctx;
    agent_leases_end(a);
    if (a->live) fleet_timer_set(a->o.loop, &a->lease_timer, agent_now(a) + LEASES_LOOK, leases_look, a);
}

static bool leases_room(struct fleet_agent *a, uint32_t number)
{
    if (number < a->leases) return true;
    uint32_t n = a->leases ? a->leases : LEASES_FIRST;
    while (n <= number) n *= 2;
    struct agent_lease *grown = realloc(a->lease, n * sizeof(*grown));
    if (!grown) return false;
    memset(grown + a->leases, 0, (n - a->leases) * sizeof(*grown));
    a->lease = grown;
    a->leases = n;
    return true;
}

/* What is wrong with the message; FLEET_DONE: nothing. */
static enum fleet_outcome leases_check(const struct fleet_agent *a, const struct fleet_lease *l, char *why)
{
    *why = 0;
    if (l->term < a->term) {
        snprintf(why, FLEET_WHY, "term %llu is over: term %llu has been seen", (unsigned long long)l->term,
                 (unsigned long long)a->term);
        return FLEET_OLD_TERM;
    }
    if (l->lease >= a->facts.leases) {
        snprintf(why, FLEET_WHY, "the table has %u leases, and no number %u", a->facts.leases, l->lease);
        return FLEET_NO_ROOM;
    }
    if (!l->left_ns) return FLEET_DONE;
    if (l->model >= a->facts.models) {
        snprintf(why, FLEET_WHY, "this worker has %u models, and no number %u", a->facts.models, l->model);
        return FLEET_NO_MODEL;
    }
    if (l->left_ns < 0 || l->left_ns > LEASES_MAX || !l->key || !l->slots || !isfinite(l->rate) ||
        l->rate < 0) {
        snprintf(why, FLEET_WHY, "a lease has a key, slots, a rate, and a length of up to an hour");
        return FLEET_BAD;
    }
    return FLEET_DONE;
}

/* Enters a lease that is well-formed. */
static enum fleet_outcome leases_enter(struct fleet_agent *a, const struct fleet_lease *l, char *why)
{
    int64_t until = agent_now(a) + l->left_ns;
    bool old = l->lease < a->leases && a->lease[l->lease].lease.key;
    uint64_t others = a->slots - (old ? a->lease[l->lease].lease.slots : 0);
    if (a->leaving && (!old || a->lease[l->lease].lease.key != l->key)) {
        snprintf(why, FLEET_WHY, "this worker leaves the fleet");
        return FLEET_NO_ROOM;
    }
    if (others + l->slots > a->facts.slots) {
        snprintf(why, FLEET_WHY, "%u slots, of which %llu are leased", a->facts.slots,
                 (unsigned long long)others);
        return FLEET_NO_ROOM;
    }
    int err = leases_room(a, l->lease) ? a->o.engine->ops->lease(a->o.engine, l, until) : -ENOMEM;
    if (err) {
        snprintf(why, FLEET_WHY, "%s", err == -ENOMEM ? "no memory" : gw_last_error());
        return err == -EINVAL ? FLEET_BAD : FLEET_NO_ROOM;
    }
    struct agent_lease *mine = &a->lease[l->lease];
    a->live += !old;
    a->slots = others + l->slots;
    mine->lease = *l;
    mine->until_at = until;
    if (until < a->next_end_at || a->live == 1) a->next_end_at = until;
    if (!a->lease_timer.at)
        fleet_timer_set(a->o.loop, &a->lease_timer, agent_now(a) + LEASES_LOOK, leases_look, a);
    return FLEET_DONE;
}

/* The leader takes it back. The client hears of it later than we do. A worker that leaves gives its slots to
 * no one else, so requests that are on their way may still come in. */
static void leases_take_back(struct fleet_agent *a, uint32_t number)
{
    struct agent_lease *l = &a->lease[number];
    int64_t until = agent_now(a) + LEASES_GRACE;
    if (!a->leaving) {
        leases_drop(a, number);
    } else if (until < l->until_at) {
        l->until_at = until;
        a->o.engine->ops->lease(a->o.engine, &l->lease, until);
        if (until < a->next_end_at) a->next_end_at = until;
    }
}

void agent_leases_set(struct fleet_agent *a, uint64_t seq, const struct fleet_lease *l)
{
    char why[FLEET_WHY];
    enum fleet_outcome outcome = leases_check(a, l, why);
    if (outcome != FLEET_OLD_TERM && l->term > a->term) a->term = l->term;
    if (outcome == FLEET_DONE) {
        agent_leases_end(a);
        if (l->left_ns)
            outcome = leases_enter(a, l, why);
        else if (l->lease < a->leases && a->lease[l->lease].lease.key)
            leases_take_back(a, l->lease);
    }
    agent_result(a, seq, l->model, outcome, why);
}

void agent_leases_tell(struct fleet_agent *a)
{
    int64_t now = agent_now(a);
    agent_leases_end(a);
    for (uint32_t i = 0; a->live && i < a->leases; i++) {
        const struct agent_lease *l = &a->lease[i];
        if (!l->lease.key) continue;
        struct fleet_held h = {.lease = i,
                               .model = l->lease.model,
                               .key = l->lease.key,
                               .slots = l->lease.slots,
                               .rate = l->lease.rate,
                               .left_ns = l->until_at - now,
                               .max_batch = l->lease.max_batch,
                               .spill = l->lease.spill};
        memcpy(h.client, l->lease.client, sizeof(h.client));
        agent_send(a, FLEET_HELD, 0, &h, sizeof(h));
    }
}
