/* SPDX-License-Identifier: Apache-2.0 */
/* agent_send.c: what the agent says, to the leader and to the log. */
#include "src/fleet/worker/agent_impl.h"

#include <stdarg.h>
#include <stdio.h>

void agent_say(const struct fleet_agent *a, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!a->o.say) return;
    int n = snprintf(line, sizeof(line), "worker %s: ", a->name);
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    a->o.say(a->o.ctx, line);
}

void agent_send(struct fleet_agent *a, uint16_t kind, uint64_t seq, const void *body, size_t bytes)
{
    if (a->control && a->welcome) fleet_send(a->control, kind, seq, body, bytes, NULL, 0, NULL);
}

void agent_result(struct fleet_agent *a, uint64_t seq, uint32_t model, enum fleet_outcome outcome,
                  const char *why)
{
    struct fleet_result r = {.outcome = outcome, .model = model, .where = UINT32_MAX};
    struct fleet_has_model m;
    if (model < a->facts.models) {
        a->o.engine->ops->model(a->o.engine, model, &m);
        r.where = m.where;
    }
    r.began_at = r.ended_at = agent_now(a);
    snprintf(r.why, sizeof(r.why), "%s", why);
    if (a->control) fleet_send(a->control, FLEET_RESULT, seq, &r, sizeof(r), NULL, 0, NULL);
}
