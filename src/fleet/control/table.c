/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller knows, for people: as JSON, and as metrics. */
#include <stdio.h>
#include <string.h>

#include "src/fleet/control/impl.h"

static const char *table_where(uint8_t where)
{
    static const char *const names[] = {"host", "loading", "gpu", "leaving"};
    return names[where];
}

static const char *table_state(const struct ctl_worker *k)
{
    return !k->conn    ? "gone"
           : !k->ready ? "coming"
           : k->leaves ? "leaves"
           : k->lies   ? "lies"
           : k->drains ? "drains"
                       : "active";
}

static void table_set(json_t *o, const char *name, uint64_t n)
{
    json_object_set_new(o, name, json_integer((json_int_t)n));
}

static json_t *table_worker(const struct fleet_control *c, const struct ctl_worker *k)
{
    const struct fleet_worker *w = &c->state->workers[k->number];
    const struct fleet_telemetry *t = &k->told_last;
    uint32_t models = 0;
    for (uint32_t i = w->first; i != FLEET_NONE; i = c->state->places[i].next_of_worker)
        models += c->state->places[i].where == FLEET_GPU;
    json_t *o = json_pack("{s:s,s:s,s:s,s:b}", "name", k->name, "address", k->facts.address, "state",
                          table_state(k), "emulated", k->facts.emulated != 0);
    if (!o) return NULL;
    table_set(o, "gpu_pages", k->facts.gpu_pages);
    table_set(o, "gpu_used", w->gpu_used);
    table_set(o, "host_pages", k->facts.host_pages);
    table_set(o, "host_used", w->host_used);
    table_set(o, "files", k->nhas);
    table_set(o, "models", models);
    table_set(o, "leases", k->conn && k->lease ? k->facts.leases - k->nfree : 0);
    table_set(o, "slots", k->facts.slots);
    table_set(o, "slots_leased", k->slots);
    table_set(o, "queue", t->queue);
    table_set(o, "sessions", t->sessions);
    table_set(o, "answered", t->answered);
    table_set(o, "late", t->late);
    table_set(o, "refused", t->refused);
    table_set(o, "clock_error_us", (uint64_t)w->clock_error_ns / 1000);
    return o;
}

static json_t *table_places(const struct fleet_control *c, uint32_t model)
{
    json_t *all = json_array();
    for (uint32_t i = c->state->models[model].first; i != FLEET_NONE; i = c->state->places[i].next_of_model) {
        const struct fleet_place *p = &c->state->places[i];
        json_t *o = json_pack("{s:s,s:s,s:i,s:f,s:f,s:b,s:i}", "worker", c->workers[p->worker]->name, "where",
                              table_where(p->where), "slots", (int)p->slots, "rate", (double)p->rate, "share",
                              (double)p->share, "spill", p->spill, "leases", (int)c->places[i].nleases);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *table_model(const struct fleet_control *c, const struct ctl_model *m)
{
    const struct fleet_model *s = &c->state->models[m->number];
    const struct fleet_demand *d = &c->state->demand[m->number];
    uint64_t waiting = 0;
    for (int i = 0; i < FLEET_CLASSES; i++) waiting += m->waiting[i];
    json_t *o = json_pack("{s:s,s:i,s:f,s:o}", "name", m->name, "version", (int)m->version, "rate",
                          (double)d->rate[1], "places", table_places(c, m->number));
    if (!o) return NULL;
    table_set(o, "pages", s->pages);
    table_set(o, "replicas", s->min_replicas);
    table_set(o, "workers", m->workers);
    table_set(o, "clients", m->nwants);
    table_set(o, "waiting", waiting);
    table_set(o, "p99_us", (uint64_t)s->exec_ns[0] / 1000);
    table_set(o, "offered", m->count.offered);
    table_set(o, "answered", m->count.answered);
    table_set(o, "late", m->count.late);
    table_set(o, "refused", m->count.refused);
    return o;
}

/* Names of models that people named and no worker has. */
static json_t *table_missing(struct fleet_control *c)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < c->nwishes; i++)
        if (ctl_wish_is_missing(c, &c->wishes[i].is))
            json_array_append_new(all, json_string(c->wishes[i].is.name));
    return all;
}

json_t *fleet_control_table(struct fleet_control *c)
{
    json_t *workers = json_array(), *models = json_array();
    for (struct ctl_link *l = c->all_workers.next; l != &c->all_workers; l = l->next)
        json_array_append_new(workers, table_worker(c, CTL_OF(struct ctl_worker, link, l)));
    for (uint32_t i = 0; i < c->nmodels; i++) {
        const struct ctl_model *m = &c->models[i];
        bool shown = c->state->models[i].first != FLEET_NONE || m->nwants || m->count.offered;
        if (shown) json_array_append_new(models, table_model(c, m));
    }
    json_t *o = json_pack("{s:s,s:s,s:b,s:b,s:b,s:o,s:o,s:o}", "fleet", c->o.fleet, "controller", c->o.name,
                          "leads", c->term != 0, "frozen", c->frozen, "settled", c->settled, "workers",
                          workers, "models", models, "missing", table_missing(c));
    if (!o) return NULL;
    table_set(o, "term", c->term);
    table_set(o, "models_known", c->nmodels);
    table_set(o, "clients", c->nclients);
    table_set(o, "leases", c->nleases);
    table_set(o, "places_in_etcd", c->nkept);
    table_set(o, "rounds", c->rounds);
    table_set(o, "round_us", (uint64_t)c->round_ns / 1000);
    table_set(o, "longest_round_us", (uint64_t)c->longest_ns / 1000);
    return o;
}

json_t *fleet_control_models(struct fleet_control *c)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < c->nmodels; i++)
        if (c->models[i].workers)
            json_array_append_new(
                all, json_pack("{s:s,s:i}", "name", c->models[i].name, "version", (int)c->models[i].version));
    for (uint32_t i = 0; i < c->nwishes; i++) {
        const struct fleet_control_wish *w = &c->wishes[i].is;
        if (ctl_wish_is_missing(c, w))
            json_array_append_new(all, json_pack("{s:s,s:i}", "name", w->name, "version", (int)w->version));
    }
    return json_pack("{s:o}", "models", all);
}

json_t *fleet_control_plan(struct fleet_control *c)
{
    json_t *all = json_array();
    fleet_state_copy(c->dry, c->state);
    uint32_t n = c->term ? fleet_plan(c->dry, &c->tuning, ctl_now(c), c->actions, CTL_MAX_ACTIONS) : 0;
    for (uint32_t i = 0; i < n && all; i++) {
        const struct fleet_action *a = &c->actions[i];
        json_t *o =
            json_pack("{s:s,s:s}", "action", ctl_action_names[a->kind], "model", c->models[a->model].name);
        if (a->worker != FLEET_NONE)
            json_object_set_new(o, "worker", json_string(c->workers[a->worker]->name));
        if (a->kind == FLEET_GRANT || a->kind == FLEET_RESIZE) {
            table_set(o, "slots", a->slots);
            json_object_set_new(o, "rate", json_real((double)a->rate));
        }
        json_array_append_new(all, o);
    }
    return json_pack("{s:o}", "actions", all);
}

/* ---- metrics */

static void table_metric(struct gw_text *out, const char *name, const char *type, const char *help,
                         double value)
{
    gw_text_printf(out, "# HELP gpuwire_fleet_%s %s\n# TYPE gpuwire_fleet_%s %s\ngpuwire_fleet_%s %.17g\n",
                   name, help, name, type, name, value);
}

/* A label's value: what Prometheus cannot read is escaped. */
static void table_label(struct gw_text *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') gw_text_add(out, "\\", 1);
        gw_text_add(out, text, 1);
    }
}

static void table_model_metrics(const struct fleet_control *c, struct gw_text *out)
{
    static const char *const names[] = {"offered", "answered", "late", "refused"};
    for (int k = 0; k < 4; k++) {
        gw_text_printf(
            out, "# HELP gpuwire_fleet_model_%s_total requests of clients, since this controller leads\n",
            names[k]);
        gw_text_printf(out, "# TYPE gpuwire_fleet_model_%s_total counter\n", names[k]);
        for (uint32_t i = 0; i < c->nmodels; i++) {
            const struct ctl_count *n = &c->models[i].count;
            const uint64_t values[] = {n->offered, n->answered, n->late, n->refused};
            if (!n->offered) continue;
            gw_text_printf(out, "gpuwire_fleet_model_%s_total{model=\"", names[k]);
            table_label(out, c->models[i].name);
            gw_text_printf(out, "\",version=\"%u\"} %llu\n", c->models[i].version,
                           (unsigned long long)values[k]);
        }
    }
}

static void table_worker_metrics(const struct fleet_control *c, struct gw_text *out)
{
    static const char *const names[] = {"up", "gpu_pages_used", "leases", "queue"};
    for (int k = 0; k < 4; k++) {
        gw_text_printf(out, "# TYPE gpuwire_fleet_worker_%s gauge\n", names[k]);
        for (struct ctl_link *l = c->all_workers.next; l != &c->all_workers; l = l->next) {
            const struct ctl_worker *w = CTL_OF(struct ctl_worker, link, l);
            const uint32_t values[] = {w->ready, c->state->workers[w->number].gpu_used,
                                       w->lease ? w->facts.leases - w->nfree : 0, w->told_last.queue};
            gw_text_printf(out, "gpuwire_fleet_worker_%s{worker=\"", names[k]);
            table_label(out, w->name);
            gw_text_printf(out, "\"} %u\n", values[k]);
        }
    }
}

void fleet_control_metrics(struct fleet_control *c, struct gw_text *out)
{
    table_metric(out, "leads", "gauge", "1: this controller leads", c->term != 0);
    table_metric(out, "frozen", "gauge", "1: nothing new is granted, as etcd is away", c->frozen);
    table_metric(out, "workers", "gauge", "workers that are here", c->nworkers);
    table_metric(out, "clients", "gauge", "clients that are known", c->nclients);
    table_metric(out, "leases", "gauge", "leases of clients", c->nleases);
    table_metric(out, "rounds_total", "counter", "rounds of the planner", (double)c->rounds);
    table_metric(out, "round_seconds", "gauge", "time of the last round", (double)c->round_ns * 1e-9);
    table_metric(out, "failures_total", "counter", "actions and leases that failed", (double)c->failures);
    gw_text_printf(out, "# HELP gpuwire_fleet_actions_total what the planner decided\n"
                        "# TYPE gpuwire_fleet_actions_total counter\n");
    for (int i = 0; i <= FLEET_SHED; i++)
        gw_text_printf(out, "gpuwire_fleet_actions_total{action=\"%s\"} %llu\n", ctl_action_names[i],
                       (unsigned long long)c->nactions[i]);
    gw_text_printf(out,
                   "# HELP gpuwire_fleet_telemetry_total records of workers, by the way that they came\n"
                   "# TYPE gpuwire_fleet_telemetry_total counter\n"
                   "gpuwire_fleet_telemetry_total{way=\"tcp\"} %llu\n"
                   "gpuwire_fleet_telemetry_total{way=\"rdma\"} %llu\n",
                   (unsigned long long)c->told[CTL_BY_TCP], (unsigned long long)c->told[CTL_BY_RDMA]);
    table_model_metrics(c, out);
    table_worker_metrics(c, out);
}
