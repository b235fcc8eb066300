/* SPDX-License-Identifier: Apache-2.0 */
/* What workers tell of themselves, again and again. Numbers that cannot be are a fault or a lie: the worker
 * is cut off, or gets nothing new until it connects again. */
#include <stdlib.h>
#include <string.h>

#include "src/fleet/control/impl.h"

/* What makes no sense at all. */
static const char *telemetry_fault(const struct ctl_worker *k, const struct fleet_telemetry *t, size_t bytes)
{
    const struct fleet_telemetry *last = &k->told_last;
    if (bytes < sizeof(*t)) return "telemetry that is too short";
    if (bytes != sizeof(*t) + (uint64_t)t->models * sizeof(struct fleet_telemetry_model))
        return "telemetry of another length than it says";
    if (t->seq != t->seq_again) return "telemetry that is not whole";
    if (t->told_at < 0) return "telemetry from before the worker's clock began";
    if (t->answered < last->answered || t->late < last->late || t->refused < last->refused)
        return "telemetry with counts that went back";
    return NULL;
}

static const char *telemetry_model_fault(const struct ctl_worker *k, const struct fleet_telemetry_model *m)
{
    if (m->model >= k->facts.models) return "telemetry of a model that it has not";
    if (m->requests < k->requests[m->model]) return "telemetry with counts that went back";
    for (int i = 0; i < FLEET_SIZES; i++)
        if (m->p99_ns[i] < 0) return "telemetry with negative times";
    return NULL;
}

static void telemetry_lies(struct ctl_worker *k, const char *why)
{
    if (k->lies) return;
    k->lies = true;
    ctl_say(k->control, "worker %s drains: %s", k->name, why);
    ctl_audit(k->control, "worker drains", k->number, FLEET_NONE, json_pack("{s:s}", "why", why));
    ctl_worker_health(k);
}

static void telemetry_model(struct ctl_worker *k, const struct fleet_telemetry_model *m)
{
    struct fleet_control *c = k->control;
    uint32_t model = k->model_of[m->model];
    bool used = m->requests > k->requests[m->model];
    k->requests[m->model] = m->requests;
    if (model == FLEET_NONE) return; /* it was left out */
    uint32_t place = used ? ctl_worker_place(k, m->model) : FLEET_NONE;
    if (place != FLEET_NONE) c->state->places[place].used_ns = ctl_now(c);
    ctl_model_learn(c, model, m->p99_ns);
}

static void telemetry_take(struct ctl_worker *k, const struct fleet_telemetry *t)
{
    struct fleet_control *c = k->control;
    struct fleet_worker *w = &c->state->workers[k->number];
    int64_t offset, error;
    k->told_last = *t;
    if (!fleet_conn_clock(k->conn, &offset, &error)) w->clock_error_ns = error;
    k->told_at = ctl_now(c);
    if (t->gpu_used > k->facts.gpu_pages || t->host_used > k->facts.host_pages)
        telemetry_lies(k, "it says that it uses more pages than it has");
}

void ctl_telemetry(struct ctl_worker *k, const void *record, size_t bytes, enum ctl_way way)
{
    const struct fleet_telemetry *t = record;
    const struct fleet_telemetry_model *m = (const void *)(t + 1);
    const char *why = telemetry_fault(k, t, bytes);
    for (uint32_t i = 0; !why && i < t->models; i++) why = telemetry_model_fault(k, &m[i]);
    if (why) {
        ctl_worker_cut(k, why);
        return;
    }
    k->control->told[way]++;
    if (!k->ready) return;
    for (uint32_t i = 0; i < t->models; i++) telemetry_model(k, &m[i]);
    telemetry_take(k, t);
}
