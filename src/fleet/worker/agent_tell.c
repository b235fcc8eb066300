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

static void tell(void *ctx)
{
    struct fleet_agent *a = ctx;
    struct fleet_telemetry t = {0};
    uint32_t n = a->o.engine->ops->telemetry(a->o.engine, &t, a->told.model, AGENT_TOLD);
    t.models = n;
    t.told_at = agent_now(a);
    if (n || tell_is_new(&t, &a->told.t) || t.told_at - a->told.t.told_at >= TELL_AGAIN) {
        t.seq = t.seq_again = ++a->tells;
        a->told.t = t;
        agent_send(a, FLEET_TELEMETRY, 0, &a->told,
                   offsetof(__typeof__(a->told), model) + n * sizeof(a->told.model[0]));
    }
    fleet_timer_set(a->o.loop, &a->tell_timer, t.told_at + a->telemetry_ns, tell, a);
}

void agent_tell_start(struct fleet_agent *a, const struct fleet_welcome *w)
{
    a->telemetry_ns = w->telemetry_ns <= 0           ? TELL_DEFAULT
                      : w->telemetry_ns < TELL_LEAST ? TELL_LEAST
                                                     : w->telemetry_ns;
    a->told.t.told_at = 0;
    fleet_timer_set(a->o.loop, &a->tell_timer, agent_now(a), tell, a);
}

void agent_tell_stop(struct fleet_agent *a)
{
    fleet_timer_clear(a->o.loop, &a->tell_timer);
}
