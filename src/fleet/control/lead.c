/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the controller what etcd says: that it leads, who leads instead, which workers there are, which of
 * them drain, and that etcd is away. */
#include "src/fleet/control/lead.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define LEAD_LOOK INT64_C(100000000)

struct fleet_lead {
    struct fleet_loop *loop;
    struct fleet_registry *registry;
    struct fleet_control *control;
    struct fleet_registry_leader me;
    void (*say)(void *ctx, const char *line);
    uint64_t term; /* etcd confirms it */
    /* The term that etcd does not confirm any more. The controller keeps it, and only renews what it has
     * granted: if another one leads, workers know that one's larger term and refuse. 0: there is none. */
    uint64_t unsure;
    bool other; /* as etcd said last, another one leads */
    struct fleet_timer look;
};

static void lead_line(void *ctx, const char *line)
{
    struct fleet_lead *l = ctx;
    if (l->say) l->say(NULL, line);
}

static void lead_state(void *ctx, bool up, const char *line)
{
    struct fleet_lead *l = ctx;
    lead_line(l, line);
    fleet_control_freeze(l->control, !up || l->unsure);
}

static void lead_worker(void *ctx, const struct fleet_registry_worker *w, bool gone)
{
    struct fleet_lead *l = ctx;
    fleet_control_expect(l->control, w->name, !gone);
}

static void lead_place(void *ctx, const struct fleet_registry_place *p, bool gone)
{
    struct fleet_lead *l = ctx;
    fleet_control_place(l->control, p->worker, p->model, !gone && p->where == FLEET_GPU);
}

static void lead_drain(void *ctx, const struct fleet_registry_drain *d, bool gone)
{
    struct fleet_lead *l = ctx;
    if (fleet_control_drain(l->control, d->worker, !gone)) lead_line(l, gw_last_error());
}

/* The controller's peers are sent to that one. */
static void lead_other_leads(struct fleet_lead *l, const char *address)
{
    l->unsure = 0;
    fleet_control_elsewhere(l->control, address);
    fleet_control_yield(l->control, "another one leads");
}

/* A worker left for another leader. While etcd confirms that we lead, the worker is wrong. */
static void lead_on_other(void *ctx, const char *leader)
{
    struct fleet_lead *l = ctx;
    if (l->unsure) lead_other_leads(l, leader);
}

static void lead_leader(void *ctx, const struct fleet_registry_leader *leader)
{
    struct fleet_lead *l = ctx;
    l->other = leader && memcmp(leader->id, l->me.id, FLEET_ID);
    if (l->other && l->unsure)
        lead_other_leads(l, leader->address);
    else
        fleet_control_elsewhere(l->control, l->other ? leader->address : "");
}

/* etcd may have told of the other leader before the election tells us: no second word comes then. */
static void lead_lost(void *ctx, uint64_t term, const char *why)
{
    struct fleet_lead *l = ctx;
    char line[256];
    if (!l->term) return;
    l->term = 0;
    if (l->other) {
        fleet_control_yield(l->control, "another one leads");
        return;
    }
    l->unsure = term;
    snprintf(line, sizeof(line), "may lead no more (%s): renews what was granted, and grants nothing new",
             why);
    lead_line(l, line);
    fleet_control_freeze(l->control, true);
}

static void lead_leads(void *ctx, uint64_t term)
{
    struct fleet_lead *l = ctx;
    bool again = l->unsure == term; /* no other one has led */
    l->term = term;
    l->unsure = 0;
    if (again)
        lead_line(l, "leads still");
    else
        fleet_control_lead(l->control, term);
    fleet_control_freeze(l->control, !fleet_registry_is_up(l->registry));
}

/* Our own clock ends a term when etcd cannot be asked: then another one may lead. */
static void lead_look(void *ctx)
{
    struct fleet_lead *l = ctx;
    if (l->term && !fleet_registry_term(l->registry))
        lead_lost(l, l->term, "etcd does not confirm it any more");
    fleet_timer_set(l->loop, &l->look, fleet_loop_now(l->loop) + LEAD_LOOK, lead_look, l);
}

static void lead_on_drain(void *ctx, const char *worker, bool drains)
{
    struct fleet_lead *l = ctx;
    struct fleet_registry_drain d = {.why = "gpuwire fleet drain"};
    int err = 0;
    snprintf(d.worker, sizeof(d.worker), "%s", worker);
    err = drains ? fleet_registry_put_drain(l->registry, &d, NULL, NULL)
                 : fleet_registry_drop_drain(l->registry, worker, NULL, NULL);
    if (err) lead_line(l, gw_last_error());
}

static void lead_on_place(void *ctx, const char *worker, const char *model, bool on_gpu)
{
    struct fleet_lead *l = ctx;
    struct fleet_registry_place p = {.where = FLEET_GPU};
    snprintf(p.worker, sizeof(p.worker), "%s", worker);
    snprintf(p.model, sizeof(p.model), "%s", model);
    int err = on_gpu ? fleet_registry_put_place(l->registry, &p, NULL, NULL)
                     : fleet_registry_drop_place(l->registry, worker, model, NULL, NULL);
    if (err && err != -EPERM) lead_line(l, gw_last_error());
}

static void lead_on_model(void *ctx, const struct fleet_has_model *told, const struct fleet_model *profile)
{
    struct fleet_lead *l = ctx;
    struct fleet_registry_model m = {.version = told->version,
                                     .pages = profile->pages,
                                     .min_replicas = profile->min_replicas,
                                     .max_batch = told->max_batch,
                                     .request_bytes = told->request_bytes,
                                     .answer_bytes = told->answer_bytes};
    memcpy(m.name, told->name, sizeof(m.name));
    memcpy(m.digest, told->digest, sizeof(m.digest));
    int err = fleet_registry_put_model(l->registry, &m, NULL, NULL);
    if (err && err != -EPERM) lead_line(l, gw_last_error());
}

static const struct fleet_registry_handler lead_handler = {.state = lead_state,
                                                           .trouble = lead_line,
                                                           .worker = lead_worker,
                                                           .place = lead_place,
                                                           .drain = lead_drain,
                                                           .leader = lead_leader,
                                                           .leads = lead_leads,
                                                           .lost = lead_lost};

int fleet_lead_open(struct fleet_loop *loop, const struct fleet_registry_opts *opts,
                    const struct fleet_registry_leader *me, struct fleet_control *control,
                    void (*say)(void *ctx, const char *line), struct fleet_lead **out)
{
    struct fleet_lead *l = calloc(1, sizeof(*l));
    if (!l) return gw_error(-ENOMEM, "no memory to lead a fleet");
    l->loop = loop;
    l->control = control;
    l->me = *me;
    l->say = say;
    int err = fleet_registry_open(loop, opts, &lead_handler, l, &l->registry);
    if (!err) err = fleet_registry_campaign(l->registry, me);
    if (!err) err = fleet_timer_set(loop, &l->look, fleet_loop_now(loop) + LEAD_LOOK, lead_look, l);
    if (err) {
        fleet_registry_close(l->registry);
        free(l);
        return err;
    }
    fleet_control_keep(control, &(struct fleet_control_keeper){lead_on_drain, lead_on_place, lead_on_model,
                                                               lead_on_other, l});
    *out = l;
    return 0;
}

void fleet_lead_close(struct fleet_lead *l)
{
    if (!l) return;
    fleet_timer_clear(l->loop, &l->look);
    fleet_control_keep(l->control, &(struct fleet_control_keeper){0});
    fleet_registry_close(l->registry);
    free(l);
}
