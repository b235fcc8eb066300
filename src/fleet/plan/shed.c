/* SPDX-License-Identifier: Apache-2.0 */
/* shed.c: the last step of a round: what no worker could do in time is refused at the client, before it
 * costs anything. Requests with the tightest deadlines go first, because their small batches cost most. */
#include <stdlib.h>

#include "src/fleet/plan/scratch.h"

#define SHED_OVER                                                                                            \
    1.1f /* a worker that is asked for more sheds; the device refuses the little that is over one */
enum { SHED_STEP = 13 }; /* of 255: smaller changes are not worth a message */

/* Which part of a model's requests its workers can do, in the best batches. */
static float shed_served(const struct fleet_round *r, uint32_t model)
{
    float part = 0;
    uint32_t n = 0;
    for (uint32_t i = r->s->models[model].first; i != FLEET_NONE; i = r->s->places[i].next_of_model) {
        if (!r->s->places[i].slots) continue;
        float load = r->s->scratch->room[r->s->places[i].worker].least;
        part += load > SHED_OVER ? SHED_OVER / load : 1;
        n++;
    }
    return n ? part / (float)n : 1;
}

void fleet_shed(struct fleet_round *r)
{
    for (uint32_t i = 0; i < r->s->limits.models; i++) {
        struct fleet_demand *d = &r->s->demand[i];
        float all = 0;
        if (r->s->models[i].first == FLEET_NONE) continue;
        for (int c = 0; c < FLEET_CLASSES; c++) all += d->class[c].rate;
        float left = all * shed_served(r, i);
        for (int c = FLEET_CLASSES - 1; c >= 0; c--) {
            float rate = d->class[c].rate;
            uint8_t admitted = rate <= left ? FLEET_ALL : (uint8_t)(254 * left / rate);
            left = rate <= left ? left - rate : 0;
            if (abs(admitted - d->admitted[c]) < SHED_STEP &&
                (admitted == FLEET_ALL) == (d->admitted[c] == FLEET_ALL))
                continue;
            if (r->n >= r->max) return;
            struct fleet_action *a = &r->out[r->n++];
            *a = (struct fleet_action){.kind = FLEET_SHED, .class = (uint8_t)c, .admitted = admitted};
            a->worker = a->place = FLEET_NONE;
            a->model = i;
            d->admitted[c] = admitted;
        }
    }
}
