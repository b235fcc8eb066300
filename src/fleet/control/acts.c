/* SPDX-License-Identifier: Apache-2.0 */
/* Actions go to workers, and their results into the planner's state. */
#include <string.h>

#include "src/fleet/control/impl.h"

#define ACTS_WINDOW (10 * CTL_SECOND) /* a LOAD that cannot begin in that time is of no use any more */

/* A moment of our clock on the worker's. Without a PONG yet, no moment is known. */
static int64_t acts_their_time(const struct ctl_worker *k, int64_t at, int64_t else_at)
{
    int64_t offset, error;
    if (fleet_conn_clock(k->conn, &offset, &error)) return else_at;
    return at + offset;
}

/* The place is on the GPU, or where the planner looked first: it was not moved. */
static void acts_undo(struct fleet_control *c, uint32_t kind, uint32_t place)
{
    if (kind == FLEET_LOAD)
        fleet_loaded(c->state, place, false, ctl_now(c));
    else if (kind == FLEET_EVICT)
        fleet_place_move(c->state, place, FLEET_GPU, ctl_now(c));
    else
        c->state->places[place].dropping = false;
    c->places[place].busy = false;
}

void ctl_place_told(struct fleet_control *c, uint32_t worker, uint32_t model, bool on_gpu)
{
    if (c->keeper.place)
        c->keeper.place(c->keeper.ctx, c->workers[worker]->name, c->models[model].name, on_gpu);
}

static void acts_move(struct fleet_control *c, const struct fleet_action *a)
{
    struct ctl_worker *k = c->workers[a->worker];
    struct fleet_act m = {.term = c->term, .kind = a->kind, .model = ctl_worker_number(k, a->model)};
    struct ctl_pending p = {.kind = a->kind, .model = a->model, .place = a->place};
    m.earliest_at = INT64_MIN;
    m.latest_at = INT64_MAX;
    if (a->kind == FLEET_LOAD) {
        m.earliest_at = acts_their_time(k, a->earliest_ns, INT64_MIN);
        m.latest_at = acts_their_time(k, ctl_now(c) + ACTS_WINDOW, INT64_MAX);
    }
    c->places[a->place].busy = true;
    ctl_place_told(c, a->worker, a->model, a->kind == FLEET_LOAD);
    if (m.model == FLEET_NONE || fleet_send(k->conn, FLEET_ACTION, 0, &m, sizeof(m), NULL, 0, &p.seq) ||
        ctl_pending_add(k, &p))
        acts_undo(c, a->kind, a->place);
}

static void acts_audit(struct fleet_control *c, const struct fleet_action *a)
{
    json_t *more = NULL;
    if (!c->o.audit) return;
    if (a->kind == FLEET_GRANT || a->kind == FLEET_RESIZE)
        more = json_pack("{s:i,s:f,s:f,s:i,s:b}", "slots", (int)a->slots, "rate", (double)a->rate, "share",
                         (double)a->share, "max_batch", a->max_batch, "spill", a->spill);
    if (a->kind == FLEET_SHED) more = json_pack("{s:i,s:i}", "class", a->class, "admitted", a->admitted);
    ctl_audit(c, ctl_action_names[a->kind], a->worker, a->model, more);
}

void ctl_act(struct fleet_control *c, const struct fleet_action *a)
{
    acts_audit(c, a);
    c->nactions[a->kind]++;
    switch (a->kind) {
    case FLEET_LOAD:
    case FLEET_EVICT:
    case FLEET_DROP: acts_move(c, a); break;
    case FLEET_GRANT:
    case FLEET_RESIZE:
        c->places[a->place].renews = true;
        ctl_model_dirty(c, a->model);
        break;
    case FLEET_REVOKE:
        ctl_place_end_leases(c, a->place, true);
        ctl_model_dirty(c, a->model);
        break;
    case FLEET_SHED: ctl_sheds(c, a->model, a->class); break;
    default: break;
    }
}

/* ---- results */

void ctl_place_drop(struct fleet_control *c, uint32_t place)
{
    ctl_place_end_leases(c, place, true);
    c->places[place].busy = c->places[place].renews = false;
    fleet_place_remove(c->state, place);
}

/* The planner's lease of a place whose model is not on the GPU is no more. */
static void acts_unlease(struct fleet_control *c, uint32_t place)
{
    struct fleet_place *p = &c->state->places[place];
    ctl_place_end_leases(c, place, true);
    p->slots = 0;
    p->share = p->rate = 0;
    p->spill = false;
    p->until_ns = 0;
}

/* The place is where the worker says. False: that cannot be. */
static bool acts_settle(struct fleet_control *c, uint32_t place, uint32_t where)
{
    struct fleet_place *p = &c->state->places[place];
    const struct fleet_worker *w = &c->state->workers[p->worker];
    uint32_t pages = c->state->models[p->model].pages;
    if (where == UINT32_MAX) {
        ctl_place_drop(c, place);
        return true;
    }
    if (where > FLEET_LEAVING) return false;
    if (where != FLEET_HOST && p->where == FLEET_HOST && pages > w->gpu_pages - w->gpu_used) return false;
    if (where != FLEET_GPU) acts_unlease(c, place);
    if (p->where != where) fleet_place_move(c->state, place, (enum fleet_where)where, ctl_now(c));
    return true;
}

static void acts_fail(struct ctl_worker *k, const struct ctl_pending *p, const struct fleet_result *r)
{
    struct fleet_control *c = k->control;
    c->failures++;
    ctl_say(c, "worker %s: %s of %s failed: %s", k->name, ctl_action_names[p->kind], c->models[p->model].name,
            r->why[0] ? r->why : "no reason given");
    acts_undo(c, p->kind, p->place);
    if (p->kind == FLEET_LOAD) ctl_place_told(c, k->number, p->model, false);
    if (r->outcome == FLEET_NO_MODEL) {
        fleet_state_set_file(c->state, k->number, p->model, false);
        ctl_place_drop(c, p->place);
    } else if (p->kind != FLEET_LOAD || r->where == FLEET_GPU) {
        if (!acts_settle(c, p->place, r->where)) ctl_worker_cut(k, "a model is where no model can be");
    }
}

void ctl_act_result(struct ctl_worker *k, const struct ctl_pending *p, const struct fleet_result *r)
{
    struct fleet_control *c = k->control;
    int64_t now = ctl_now(c), took = r->ended_at - r->began_at;
    char name[24] = "";
    strcat(strcpy(name, ctl_action_names[p->kind]), r->outcome == FLEET_DONE ? " done" : " failed");
    ctl_audit(c, name, k->number, p->model,
              json_pack("{s:i,s:I,s:s}", "outcome", (int)r->outcome, "took_us",
                        (json_int_t)(took >= 0 && took < 3600 * CTL_SECOND ? took / 1000 : 0), "why",
                        r->why));
    c->places[p->place].busy = false;
    if (r->outcome != FLEET_DONE)
        acts_fail(k, p, r);
    else if (p->kind == FLEET_LOAD)
        fleet_loaded(c->state, p->place, true, now);
    else if (p->kind == FLEET_DROP || r->where == UINT32_MAX)
        ctl_place_drop(c, p->place);
    else
        fleet_place_move(c->state, p->place, FLEET_HOST, now);
    ctl_model_dirty(c, p->model);
}

void ctl_place_is(struct ctl_worker *k, uint32_t model, uint32_t where)
{
    struct fleet_control *c = k->control;
    uint32_t place = fleet_place_find(c->state, k->number, model);
    if (place != FLEET_NONE && c->places[place].busy) return; /* its RESULT will say */
    if (place == FLEET_NONE && where == UINT32_MAX) return;
    if (place == FLEET_NONE) {
        const struct fleet_worker *w = &c->state->workers[k->number];
        uint32_t pages = c->state->models[model].pages;
        place = pages <= w->host_pages - w->host_used
                    ? fleet_place_add(c->state, k->number, model, ctl_now(c))
                    : FLEET_NONE;
        if (place == FLEET_NONE) {
            ctl_worker_cut(k, "its models need more pages than it has");
            return;
        }
    }
    if (acts_settle(c, place, where))
        ctl_model_dirty(c, model);
    else
        ctl_worker_cut(k, "a model is where no model can be");
}
