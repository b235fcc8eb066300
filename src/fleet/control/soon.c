/* SPDX-License-Identifier: Apache-2.0 */
/* soon.c: asks for a round of the planner. All that changes the state calls it, so it stands below. */
#include "src/fleet/control/impl.h"

void ctl_round_soon(struct fleet_control *c)
{
    int64_t at = c->round_at + CTL_ROUND_PAUSE, now = ctl_now(c);
    if (!c->term) return;
    if (at < now) at = now;
    if (!c->round.at || c->round.at > at) fleet_timer_set(c->o.loop, &c->round, at, c->run_round, c);
}
