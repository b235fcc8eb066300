/* SPDX-License-Identifier: Apache-2.0 */
/* deferred.c: Symphony's policy. A batch of n has a window. It begins no later than its first deadline
 * allows. It begins no sooner than a batch of n + 1 must. So it waits as long as waiting can make it
 * larger. */
#include "src/fleet/plan/central.h"

static int64_t deferred_begin(const struct fleet_central *c, uint32_t model)
{
    const struct fleet_queue *q = &c->models[model].queue;
    if (q->n >= FLEET_MAX_BATCH) return INT64_MIN;
    return c->links[q->head].deadline_ns - fleet_exec(&c->s->models[model], q->n + 1) - c->o.hop_ns;
}

static uint32_t deferred_batch(struct fleet_central *c, uint32_t model, const struct fleet_central_times *t,
                               struct fleet_central_out *out)
{
    const struct fleet_queue *q = &c->models[model].queue;
    const struct fleet_model *m = &c->s->models[model];
    if (deferred_begin(c, model) > t->now_ns) return 0;
    while (fleet_queue_give_up(q, c->links, m, t->start_ns, FLEET_MAX_BATCH) &&
           out->n + FLEET_CENTRAL_ROOM < out->max) {
        fleet_central_refuse(c, model, out);
    }
    uint32_t n = fleet_queue_batch(q, c->links, m, t->start_ns, FLEET_MAX_BATCH);
    return n && deferred_begin(c, model) <= t->now_ns ? n : 0;
}

const struct fleet_central_policy fleet_deferred = {deferred_batch, deferred_begin};
