/* SPDX-License-Identifier: Apache-2.0 */
/* act.c: what several steps of a round do. */
#include "src/fleet/plan/scratch.h"

#define ACT_SUSPECT                                                                                          \
    0.05f /* a worker with more late answers than this gets nothing new: its telemetry is wrong */

bool fleet_stays(const struct fleet_worker *w)
{
    return w->health == FLEET_ACTIVE && w->late < ACT_SUSPECT;
}

struct fleet_action *fleet_act(struct fleet_round *r, enum fleet_kind kind, uint32_t place)
{
    if (r->n >= r->max) return NULL;
    struct fleet_action *a = &r->out[r->n++];
    const struct fleet_place *p = &r->s->places[place];
    *a = (struct fleet_action){.kind = (uint8_t)kind, .worker = p->worker, .model = p->model, .place = place};
    a->earliest_ns = r->now_ns;
    a->latest_ns = INT64_MAX;
    return a;
}

bool fleet_revoke(struct fleet_round *r, uint32_t place)
{
    struct fleet_place *p = &r->s->places[place];
    struct fleet_room *o = &r->s->scratch->room[p->worker];
    struct fleet_need *n = &r->s->scratch->need[p->model];
    if (!fleet_act(r, FLEET_REVOKE, place)) return false;
    o->slots -= p->slots;
    o->leases--;
    o->granted -= p->share;
    if (!p->spill) o->load -= n->use / (float)(n->leased ? n->leased : 1);
    if (p->spill)
        n->spill--;
    else if (fleet_stays(&r->s->workers[p->worker]) && n->leased)
        n->leased--;
    p->slots = 0;
    p->spill = false;
    p->share = p->rate = 0;
    return true;
}
