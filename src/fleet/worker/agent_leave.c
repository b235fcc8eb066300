/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_leave.c: a worker that ends orderly loses no request. The leader hears LEAVES, and takes the leases
 * back. The worker serves on until they have ended and all is answered. Then it waits a little for requests
 * that their clients sent before they knew: those hear that there is no lease, and go elsewhere.
 */
#include "src/fleet/worker/agent_impl.h"

#define LEAVE_LOOK  (5 * AGENT_MS)
#define LEAVE_GRACE (100 * AGENT_MS) /* for requests that are on their way */
#define LEAVE_FLUSH (200 * AGENT_MS) /* for the last words to leave */

static void leave_left(void *ctx)
{
    struct fleet_agent *a = ctx;
    a->on_left(a->left_ctx);
}

static void leave_now(struct fleet_agent *a)
{
    a->left = true;
    agent_door_close(a, "this worker leaves the fleet");
    agent_control_stop(a, "this worker leaves the fleet");
    fleet_timer_set(a->o.loop, &a->leave_timer, agent_now(a) + LEAVE_FLUSH, leave_left, a);
}

static void leave_look(void *ctx)
{
    struct fleet_agent *a = ctx;
    int64_t now = agent_now(a);
    agent_leases_end(a);
    bool empty = !a->live && !a->ncalls && a->o.engine->ops->idle(a->o.engine);
    if (!empty) a->empty_at = now;
    if (now >= a->leave_by_at || now - a->empty_at >= LEAVE_GRACE)
        leave_now(a);
    else
        fleet_timer_set(a->o.loop, &a->leave_timer, now + LEAVE_LOOK, leave_look, a);
}

void fleet_agent_leave(struct fleet_agent *a, int64_t within_ns, void (*left)(void *ctx), void *ctx)
{
    int64_t by_at = within_ns < INT64_MAX - agent_now(a) ? agent_now(a) + within_ns : INT64_MAX;
    if (a->leaving) {
        if (by_at < a->leave_by_at) a->leave_by_at = by_at;
        return;
    }
    a->leaving = true;
    a->on_left = left;
    a->left_ctx = ctx;
    a->empty_at = agent_now(a);
    a->leave_by_at = by_at;
    agent_say(a, "leaves: takes no new leases, and serves %u leases until they have ended", a->live);
    agent_send(a, FLEET_LEAVES, 0, NULL, 0);
    leave_look(a);
}

void agent_leave_stop(struct fleet_agent *a)
{
    fleet_timer_clear(a->o.loop, &a->leave_timer);
}
