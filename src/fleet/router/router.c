/* SPDX-License-Identifier: Apache-2.0 */
/* router.c: the operations that doors need, on the models of a fleet. */
#include "src/fleet/router/router.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/router/call.h"
#include "src/fleet/router/catalog.h"
#include "src/fleet/router/list.h"

#define ROUTER_MEMORY   ((uint64_t)1 << 30)
#define ROUTER_RETRY_NS 1000000000u /* when a router that is not ready may be */

struct fleet_router {
    struct fleet_client *client;
    struct fleet_catalog catalog;
    struct fleet_calls calls;
    struct fleet_list *list; /* keeps the catalog */
};

int fleet_router_open(const struct fleet_router_opts *o, struct fleet_router **out)
{
    struct fleet_router *r = calloc(1, sizeof(*r));
    if (!r) return -ENOMEM;
    fleet_calls_open(&r->calls, o->memory ? o->memory : ROUTER_MEMORY, o->deadline_ns);
    int err = fleet_client_open(&o->client, &r->client);
    fleet_catalog_open(&r->catalog, r->client);
    if (!err) err = fleet_list_open(&o->client, r->client, &r->catalog, &r->list);
    if (err)
        fleet_router_close(r);
    else
        *out = r;
    return err;
}

void fleet_router_close(struct fleet_router *r)
{
    if (!r) return;
    fleet_list_close(r->list);
    fleet_client_close(r->client); /* from here on there are no calls */
    fleet_catalog_close(&r->catalog);
    fleet_calls_close(&r->calls);
    free(r);
}

bool fleet_router_is_busy(struct fleet_router *r)
{
    return fleet_calls_are_busy(&r->calls);
}

void fleet_router_end(struct fleet_router *r)
{
    fleet_calls_end(&r->calls);
}

/* ---- models. They stay as long as the router, so no one holds them. */

static void router_enter(void *ctx)
{
    (void)ctx;
}

static void router_leave(void *ctx)
{
    (void)ctx;
}

static int router_find(void *ctx, const char *name, struct gw_infer_model *out, struct gw_infer_error *error)
{
    struct fleet_router *r = ctx;
    struct fleet_catalog_model *m;
    if (fleet_catalog_find(&r->catalog, name, &m, error)) return -1;
    *out = (struct gw_infer_model){.name = m->name,
                                   .version = m->metadata.version,
                                   .model = m->metadata.model,
                                   .max_batch = m->metadata.max_batch,
                                   .own = m};
    return 0;
}

static bool router_model(void *ctx, size_t i, struct gw_infer_model *out)
{
    struct fleet_router *r = ctx;
    unsigned version;
    bool described;
    struct fleet_catalog_model *m = fleet_catalog_at(&r->catalog, i, &version, &described);
    if (!m) return false;
    *out = (struct gw_infer_model){
        .name = m->name, .version = version, .model = described ? m->metadata.model : NULL, .own = m};
    return true;
}

static const struct gw_missing_model *router_missing(void *ctx, size_t i)
{
    (void)ctx, (void)i;
    return NULL;
}

static void router_stats(void *ctx, const struct gw_infer_model *model, struct gw_infer_stats *out)
{
    struct fleet_catalog_model *m = model->own;
    (void)ctx;
    pthread_mutex_lock(&m->lock);
    *out = m->stats;
    pthread_mutex_unlock(&m->lock);
}

static int router_hold(void *ctx, const struct gw_infer_model *m, struct gw_infer_error *error)
{
    (void)ctx, (void)m, (void)error;
    return 0;
}

static void router_release(void *ctx, const struct gw_infer_model *m)
{
    (void)ctx, (void)m;
}

static int router_take(void *ctx, const struct gw_infer_model *m, uint32_t rows, const char *who,
                       uint64_t deadline, struct gw_infer_call **out)
{
    struct fleet_router *r = ctx;
    (void)deadline; /* a client that has too much under way is refused at once */
    return fleet_call_take(&r->calls, m->own, rows, who, out);
}

/* ---- the whole */

/* With leases it serves, also while no controller answers. */
static int router_ready(void *ctx, struct gw_infer_error *error)
{
    struct fleet_router *r = ctx;
    struct fleet_client_stats s;
    fleet_client_stats(r->client, &s);
    if (fleet_catalog_is_known(&r->catalog) && (s.has_controller || s.leases)) return 0;
    if (s.trouble[0])
        gw_infer_fail(error, GW_INFER_UNAVAILABLE, "no controller of the fleet answers: %s", s.trouble);
    else
        gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                      s.has_controller ? "no controller has told yet which models there are"
                                       : "no controller answers, and no lease is left");
    error->retry_ns = ROUTER_RETRY_NS;
    return -1;
}

static void router_metrics(void *ctx, struct gw_text *t)
{
    struct fleet_router *r = ctx;
    struct fleet_client_stats s;
    fleet_client_stats(r->client, &s);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } all[] = {
        {"gpuwire_router_controller", "gauge", "1: the fleet's leader answers", s.has_controller},
        {"gpuwire_router_leases", "gauge", "Leases that are valid", s.leases},
        {"gpuwire_router_workers", "gauge", "Workers that the router is connected to", s.workers},
        {"gpuwire_router_flying", "gauge", "Requests that workers have", s.flying},
        {"gpuwire_router_waiting", "gauge", "Requests that wait for a lease or a slot", s.waiting},
        {"gpuwire_router_grants_total", "counter", "Leases that came, renewals included", s.granted},
        {"gpuwire_router_revokes_total", "counter", "Leases that were ended early", s.revoked},
        {"gpuwire_router_demands_total", "counter", "Messages to controllers", s.demands},
        {"gpuwire_router_retries_total", "counter", "Requests that a second worker got", s.retried},
        {"gpuwire_router_shed_total", "counter", "Requests that the fleet had told to refuse", s.shed},
        {"gpuwire_router_lost_total", "counter", "Requests whose worker died", s.lost},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        gw_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", all[i].name, all[i].help, all[i].name,
                       all[i].type, all[i].name, (unsigned long long)all[i].value);
}

static const char *router_executor(void *ctx)
{
    (void)ctx;
    return "fleet";
}

const struct gw_infer_backend fleet_router_backend = {
    .enter = router_enter,
    .leave = router_leave,
    .find = router_find,
    .model = router_model,
    .missing = router_missing,
    .stats = router_stats,
    .hold = router_hold,
    .release = router_release,
    .take = router_take,
    .give = fleet_call_give,
    .layout = fleet_call_layout,
    .input = fleet_call_input,
    .output = fleet_call_output,
    .submit = fleet_call_submit,
    .wait = fleet_call_wait,
    .cancel = fleet_call_cancel,
    .result = fleet_call_result,
    .ready = router_ready,
    .metrics = router_metrics,
    .executor = router_executor,
    .late = GW_INFER_LATE,
    .no_control = "a router loads no models: the fleet's controllers do (gpuwire load MODEL --fleet URL)"};
