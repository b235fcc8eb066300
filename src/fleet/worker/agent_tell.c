/* SPDX-License-Identifier: Apache-2.0 */
/* agent_tell.c: telemetry. It goes as often as the leader asks for, 1,000 times a second at most. */
#include "src/fleet/worker/agent_impl.h"

#include <stddef.h>
#include <string.h>

#define TELL_LEAST   AGENT_MS
#define TELL_DEFAULT (10 * AGENT_MS)
#define TELL_AGAIN   (100 * AGENT_MS) /* also when nothing has changed */

/* Whether anything but the time differs. */
static bool tell_is_new(const struct fleet_telemetry *x, const struct fleet_telemetry *y)
{
    size_t from = offsetof(struct fleet_telemetry, gpu_used);
    return memcmp((const char *)x + from, (const char *)y + from, sizeof(*x) - from) != 0;
}

static size_t tell_bytes(const struct fleet_agent *a)
{
    return offsetof(__typeof__(a->told), model) + a->told.t.models * sizeof(a->told.model[0]);
}

static void tell_send(struct fleet_agent *a)
{
    agent_send(a, FLEET_TELEMETRY, 0, &a->told, tell_bytes(a));
}

static void tell(void *ctx)
{
    struct fleet_agent *a = ctx;
    struct fleet_telemetry t = {0};
    int64_t now = agent_now(a);
    enum agent_way way = agent_write_way(a);
    fleet_timer_set(a->o.loop, &a->tell_timer, now + a->telemetry_ns, tell, a);
    if (way == AGENT_WAITS) return;
    if (way == AGENT_SENDS_AGAIN) tell_send(a);
    uint32_t most = way == AGENT_WRITES ? agent_write_models(a) : AGENT_TOLD;
    t.models = a->o.engine->ops->telemetry(a->o.engine, &t, a->told.model, most);
    t.told_at = now;
    if (!t.models && !tell_is_new(&t, &a->told.t) && now - a->told.t.told_at < TELL_AGAIN) return;
    t.seq = t.seq_again = ++a->tells;
    a->told.t = t;
    if (way == AGENT_WRITES && agent_write(a, &a->told, tell_bytes(a))) return;
    tell_send(a);
}

void agent_tell_start(struct fleet_agent *a, const struct fleet_welcome *w)
{
    a->telemetry_ns = w->telemetry_ns <= 0           ? TELL_DEFAULT
                      : w->telemetry_ns < TELL_LEAST ? TELL_LEAST
                                                     : w->telemetry_ns;
    a->told.t.told_at = 0;
    agent_write_start(a, &w->target);
    fleet_timer_set(a->o.loop, &a->tell_timer, agent_now(a), tell, a);
}

void agent_tell_stop(struct fleet_agent *a)
{
    fleet_timer_clear(a->o.loop, &a->tell_timer);
    agent_write_stop(a);
}
