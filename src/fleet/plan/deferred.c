/* SPDX-License-Identifier: Apache-2.0 */
/* deferred.c: Symphony's policy. A batch of n has a window. It begins no later than its first deadline
 * allows. It begins no sooner than a batch of n + 1 must. So it waits as long as waiting can make it
 * larger. */
#include "src/fleet/plan/central.h"

enum { DEFERRED_ROOM = 32 };

static int64_t deferred_begin(const struct fleet_central *c, uint32_t model)
{
    const struct fleet_queue *q = &c->models[model].queue;
    if (q->n >= FLEET_MAX_BATCH) return INT64_MIN;
    return c->links[q->head].deadline_ns - fleet_exec(&c->s->models[model], q->n + 1) - c->o.hop_ns;
}

static bool deferred_dispatch(struct fleet_central *c, uint32_t worker, int64_t now_ns,
                              struct fleet_central_out *out)
{
    const struct fleet_central_worker *w = &c->workers[worker];
    int64_t soonest = now_ns + c->o.hop_ns, start = w->free_ns > soonest ? w->free_ns : soonest,
            first = INT64_MAX;
    uint32_t best = FLEET_NONE, size = 0;
    for (uint32_t i = w->active, next; i != FLEET_NONE; i = next) {
        next = c->places[i].next;
        uint32_t model = c->s->places[i].model;
        const struct fleet_queue *q = &c->models[model].queue;
        const struct fleet_model *m = &c->s->models[model];
        if (deferred_begin(c, model) > now_ns) continue;
        while (fleet_queue_give_up(q, c->links, m, start, FLEET_MAX_BATCH) &&
               out->n + DEFERRED_ROOM < out->max) {
            fleet_central_refuse(c, model, out);
        }
        uint32_t n = fleet_queue_batch(q, c->links, m, start, FLEET_MAX_BATCH);
        if (!n || deferred_begin(c, model) > now_ns) continue;
        int64_t latest = c->links[q->head].deadline_ns - fleet_exec(m, n);
        if (latest < first) first = latest, best = i, size = n;
    }
    if (best == FLEET_NONE) return false;
    fleet_central_send(c, best, size, start, out);
    return true;
}

const struct fleet_central_policy fleet_deferred = {deferred_dispatch, deferred_begin};
