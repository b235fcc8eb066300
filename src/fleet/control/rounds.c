/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: demand becomes rates, the planner decides, actions go out, and leases are shared. A round comes 10
 * ms after the last one if something changed, else after 100 ms. */
#include <math.h>
#include <time.h>

#include "src/fleet/control/impl.h"

#define ROUNDS_IDLE   (100 * CTL_MS)
#define ROUNDS_LEAVES (1500 * CTL_MS)   /* how long a worker that leaves has its leases at most */
#define ROUNDS_FORGET (60 * CTL_SECOND) /* how long a worker that is gone is shown */

static const double rounds_windows[FLEET_WINDOWS] = {0.1, 1, 10};

static void rounds_run(void *ctx);

void ctl_rounds_start(struct fleet_control *c)
{
    c->demand_at = ctl_now(c);
    c->run_round = rounds_run;
    fleet_timer_set(c->o.loop, &c->round, ctl_now(c) + CTL_ROUND_PAUSE, rounds_run, c);
}

/* Each window's rate goes towards what clients offer now. */
static void rounds_demand(struct fleet_control *c)
{
    double dt = (double)(ctl_now(c) - c->demand_at) * 1e-9, keep[FLEET_WINDOWS];
    c->demand_at = ctl_now(c);
    for (int i = 0; i < FLEET_WINDOWS; i++) keep[i] = exp(-dt / rounds_windows[i]);
    for (uint32_t i = 0; i < c->nmodels; i++) {
        struct fleet_demand *d = &c->state->demand[i];
        struct ctl_model *m = &c->models[i];
        double all = 0;
        for (int k = 0; k < FLEET_CLASSES; k++) {
            all += m->offered[k];
            d->class[k].rate = (float)(m->offered[k] + (d->class[k].rate - m->offered[k]) * keep[1]);
            d->class[k].waiting = m->waiting[k] < UINT32_MAX / 8 ? (uint32_t)m->waiting[k] : UINT32_MAX / 8;
        }
        for (int k = 0; k < FLEET_WINDOWS; k++) d->rate[k] = (float)(all + (d->rate[k] - all) * keep[k]);
    }
}

/* ---- workers that leave, and those that are gone */

static void rounds_worker(struct fleet_control *c, struct ctl_worker *k)
{
    int64_t now = ctl_now(c);
    if (!k->conn && now - k->gone_at > ROUNDS_FORGET) {
        ctl_worker_free(k);
        return;
    }
    if (!k->leaves || now - k->left_at < ROUNDS_LEAVES) return;
    k->left_at = now;
    for (uint32_t i = c->state->workers[k->number].first; i != FLEET_NONE;
         i = c->state->places[i].next_of_worker)
        ctl_place_end_leases(c, i, true);
}

static void rounds_workers(struct fleet_control *c)
{
    for (struct ctl_link *l = c->all_workers.next, *next; l != &c->all_workers; l = next) {
        next = l->next;
        rounds_worker(c, CTL_OF(struct ctl_worker, link, l));
    }
}

/* ---- deciding */

/* Nothing new is granted, but what is granted is renewed. */
static void rounds_renew(struct fleet_control *c)
{
    int64_t now = ctl_now(c);
    for (uint32_t w = 0; w < c->state->limits.workers; w++) {
        if (!c->workers[w] || !c->workers[w]->ready) continue;
        for (uint32_t i = c->state->workers[w].first; i != FLEET_NONE;
             i = c->state->places[i].next_of_worker) {
            struct fleet_place *p = &c->state->places[i];
            if (!p->slots || p->until_ns <= now || p->until_ns - now > c->tuning.valid_ns / 2) continue;
            p->until_ns = now + c->tuning.valid_ns;
            c->places[i].renews = true;
            ctl_model_dirty(c, p->model);
        }
    }
}

static void rounds_say(struct fleet_control *c, const struct fleet_action *a)
{
    const char *worker = a->worker == FLEET_NONE ? "all clients" : c->workers[a->worker]->name;
    const char *model = c->models[a->model].name;
    if (a->kind == FLEET_GRANT || a->kind == FLEET_RESIZE)
        ctl_say(c, "would %s %s on %s: %u slots, %.0f requests/s", ctl_action_names[a->kind], model, worker,
                a->slots, (double)a->rate);
    else
        ctl_say(c, "would %s %s on %s", ctl_action_names[a->kind], model, worker);
}

/* What the planner would do, on a copy. Says it when it differs from what was said last. */
static void rounds_dry(struct fleet_control *c)
{
    fleet_state_copy(c->dry, c->state);
    uint32_t n = fleet_plan(c->dry, &c->tuning, ctl_now(c), c->actions, CTL_MAX_ACTIONS);
    uint64_t hash = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t what[] = {c->actions[i].kind, c->actions[i].worker, c->actions[i].model};
        hash = fleet_table_hash(hash + 1, what, sizeof(what));
    }
    if (hash == c->dry_hash) return;
    c->dry_hash = hash;
    for (uint32_t i = 0; i < n; i++) {
        rounds_say(c, &c->actions[i]);
        ctl_audit(c, ctl_action_names[c->actions[i].kind], c->actions[i].worker, c->actions[i].model,
                  json_pack("{s:b}", "dry_run", 1));
    }
}

static void rounds_decide(struct fleet_control *c)
{
    if (c->o.dry_run) {
        rounds_dry(c);
        return;
    }
    if (c->frozen) {
        rounds_renew(c);
        return;
    }
    uint32_t n = fleet_plan(c->state, &c->tuning, ctl_now(c), c->actions, CTL_MAX_ACTIONS);
    for (uint32_t i = 0; i < n; i++) ctl_act(c, &c->actions[i]);
    if (n == CTL_MAX_ACTIONS) ctl_round_soon(c);
}

/* A new leader plans when its workers are there, or do not come. */
static bool rounds_settled(struct fleet_control *c)
{
    bool missing = false, any = false;
    if (c->settled) return true;
    for (struct ctl_link *l = c->all_workers.next; l != &c->all_workers; l = l->next) {
        const struct ctl_worker *k = CTL_OF(struct ctl_worker, link, l);
        missing |= (k->wanted || k->conn) && !k->ready;
        any |= k->wanted;
    }
    c->settled = (any && !missing) || ctl_now(c) - c->lead_at >= c->o.settle_ns;
    if (c->settled) ctl_wishes_say(c);
    return c->settled;
}

static void rounds_run(void *ctx)
{
    struct fleet_control *c = ctx;
    int64_t began;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    began = t.tv_sec * CTL_SECOND + t.tv_nsec;
    c->round_at = ctl_now(c);
    fleet_timer_set(c->o.loop, &c->round, c->round_at + ROUNDS_IDLE, rounds_run, c);
    rounds_workers(c);
    rounds_demand(c);
    if (!rounds_settled(c)) return;
    ctl_kept_expect(c);
    rounds_decide(c);
    if (!c->o.dry_run) ctl_split(c);
    clock_gettime(CLOCK_MONOTONIC, &t);
    c->round_ns = t.tv_sec * CTL_SECOND + t.tv_nsec - began;
    if (c->round_ns > c->longest_ns) c->longest_ns = c->round_ns;
    c->rounds++;
}
