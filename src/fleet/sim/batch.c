/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c: a batch begins on a worker. */
#include "src/fleet/sim/world.h"

void sim_worker_start(struct sim_world *w, uint32_t worker, uint32_t place)
{
    struct sim_worker *k = &w->workers[worker];
    int64_t p99 = fleet_exec(&w->state->models[w->state->places[place].model], k->nbatch);
    double took = (double)p99 * (1 + w->o.noise * sim_normal(&w->random)) / (1 + 2.33 * w->o.noise);
    if (k->lies) took *= 3;
    if (took < 1) took = 1;
    GW_ASSERT(k->running == FLEET_NONE && w->places[place].where == FLEET_GPU && k->nbatch > 0);
    k->running = place;
    k->expected_ns = w->now_ns + p99;
    k->ends_ns = w->now_ns + (int64_t)took;
    k->busy_ns += took;
    w->result->batches++;
    w->result->batched += k->nbatch;
    double error = took / ((double)p99 / (1 + 2.33 * w->o.noise)) - 1;
    w->result->error[sim_bucket((int64_t)(1e9 * (error < 0 ? -error : error)))]++;
    sim_at(w, k->ends_ns, EV_ENDED, worker, k->life);
}
