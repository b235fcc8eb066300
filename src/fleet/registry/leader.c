/* SPDX-License-Identifier: Apache-2.0 */
/* A controller's part of the registry: it runs for leadership, and writes under its term. */
#include "src/fleet/registry/leader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/registry/say.h"

/* ---- leadership ---- */

static void registry_leader_leads(void *ctx, uint64_t term)
{
    struct fleet_registry *r = ctx;
    if (r->campaigns && !r->resigns && r->handler.leads) r->handler.leads(r->ctx, term);
}

static void registry_leader_lost(void *ctx, uint64_t term, const char *why)
{
    struct fleet_registry *r = ctx;
    if (r->campaigns && !r->resigns && r->handler.lost) r->handler.lost(r->ctx, term, why);
}

static void registry_leader_refused(void *ctx, const char *why)
{
    fleet_registry_trouble(ctx, "this controller cannot lead: %s", why);
}

static const struct fleet_etcd_election_handler registry_leader_handler = {
    .leads = registry_leader_leads, .lost = registry_leader_lost, .refused = registry_leader_refused};

static int registry_leader_open(struct fleet_registry *r)
{
    char key[FLEET_ENTRY_KEY], writes[FLEET_ENTRY_KEY + 8], value[FLEET_ENTRY_VALUE];
    int n = fleet_entry_put_leader(&r->me, value);
    if (n < 0) return n;
    fleet_entry_key(r->prefix, FLEET_ENTRY_LEADER, NULL, NULL, key);
    snprintf(writes, sizeof(writes), "%swrites", r->prefix);
    const struct fleet_etcd_election_opts opts = {
        .key = key, .value = value, .writes = writes, .ttl_s = r->leader_ttl_s};
    return fleet_etcd_election_open(r->etcd, &opts, &registry_leader_handler, r, &r->election);
}

int fleet_registry_campaign(struct fleet_registry *r, const struct fleet_registry_leader *me)
{
    char value[FLEET_ENTRY_VALUE];
    if (r->campaigns) return gw_error(-EALREADY, "this controller is a candidate already");
    int n = fleet_entry_put_leader(me, value);
    if (n < 0) return n;
    r->me = *me;
    r->campaigns = true;
    if (r->election) return 0; /* the one that was given up ends first */
    int err = registry_leader_open(r);
    if (err) r->campaigns = false;
    return err;
}

void fleet_registry_resign(struct fleet_registry *r)
{
    r->campaigns = false;
    r->resigns = true;
    fleet_registry_settle(r);
}

void fleet_registry_leader_settle(struct fleet_registry *r)
{
    if (r->resigns) {
        fleet_etcd_election_close(r->election);
        r->election = NULL;
    }
    r->resigns = false;
    if (!r->campaigns || r->election || !registry_leader_open(r)) return;
    r->campaigns = false;
    fleet_registry_trouble(r, "this controller is no candidate: %s", gw_last_error());
}

uint64_t fleet_registry_term(const struct fleet_registry *r)
{
    return r->campaigns && !r->resigns && r->election ? fleet_etcd_election_term(r->election) : 0;
}

/* ---- writes ---- */

struct registry_leader_write {
    enum fleet_entry_kind kind;
    const char *name, *model;
    const char *value; /* NULL: the entry is dropped */
    int bytes;         /* of it; below 0: why there is none */
};

static int registry_leader_do(struct fleet_registry *r, const struct registry_leader_write *w,
                              fleet_registry_done *done, void *ctx)
{
    char key[FLEET_ENTRY_KEY];
    if (w->bytes < 0) return w->bytes;
    int err = fleet_entry_key(r->prefix, w->kind, w->name, w->model, key);
    if (err) return err;
    if (!fleet_registry_term(r)) return gw_error(-EPERM, "this controller does not lead");
    const struct fleet_etcd_op op = {.what = w->value ? FLEET_ETCD_PUT : FLEET_ETCD_DELETE,
                                     .key = fleet_etcd_text(key),
                                     .value = {w->value, (size_t)w->bytes}};
    return fleet_etcd_election_write(r->election, &op, done, ctx);
}

int fleet_registry_put_model(struct fleet_registry *r, const struct fleet_registry_model *m,
                             fleet_registry_done *done, void *ctx)
{
    char value[FLEET_ENTRY_VALUE];
    return registry_leader_do(r,
                              &(struct registry_leader_write){FLEET_ENTRY_MODEL, m->name, NULL, value,
                                                              fleet_entry_put_model(m, value)},
                              done, ctx);
}

int fleet_registry_drop_model(struct fleet_registry *r, const char *model, fleet_registry_done *done,
                              void *ctx)
{
    return registry_leader_do(r, &(struct registry_leader_write){.kind = FLEET_ENTRY_MODEL, .name = model},
                              done, ctx);
}

int fleet_registry_put_place(struct fleet_registry *r, const struct fleet_registry_place *p,
                             fleet_registry_done *done, void *ctx)
{
    char value[FLEET_ENTRY_VALUE];
    return registry_leader_do(r,
                              &(struct registry_leader_write){FLEET_ENTRY_PLACE, p->worker, p->model, value,
                                                              fleet_entry_put_place(p, value)},
                              done, ctx);
}

int fleet_registry_drop_place(struct fleet_registry *r, const char *worker, const char *model,
                              fleet_registry_done *done, void *ctx)
{
    return registry_leader_do(
        r, &(struct registry_leader_write){.kind = FLEET_ENTRY_PLACE, .name = worker, .model = model}, done,
        ctx);
}

int fleet_registry_put_drain(struct fleet_registry *r, const struct fleet_registry_drain *d,
                             fleet_registry_done *done, void *ctx)
{
    char value[FLEET_ENTRY_VALUE];
    return registry_leader_do(r,
                              &(struct registry_leader_write){FLEET_ENTRY_DRAIN, d->worker, NULL, value,
                                                              fleet_entry_put_drain(d, value)},
                              done, ctx);
}

int fleet_registry_drop_drain(struct fleet_registry *r, const char *worker, fleet_registry_done *done,
                              void *ctx)
{
    return registry_leader_do(r, &(struct registry_leader_write){.kind = FLEET_ENTRY_DRAIN, .name = worker},
                              done, ctx);
}
