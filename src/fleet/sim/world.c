/* SPDX-License-Identifier: Apache-2.0 */
/* world.c: what the simulator's parts share: events, messages, the ends of requests. */
#include "src/fleet/sim/world.h"

#include <stdlib.h>

static void *world_grow(void *old, size_t n, size_t size)
{
    void *p = realloc(old, n * size);
    if (!p) abort(); /* the simulator is a program of tests */
    return p;
}

void sim_at(struct sim_world *w, int64_t at_ns, enum sim_kind kind, uint32_t a, uint32_t b)
{
    if (w->heap.n == w->heap.max) {
        w->heap.max = w->heap.max ? 2 * w->heap.max : 1024;
        w->heap.m = world_grow(w->heap.m, w->heap.max, sizeof *w->heap.m);
    }
    GW_ASSERT(at_ns >= w->now_ns);
    fleet_heap_push(&w->heap, (struct fleet_moment){.at_ns = at_ns, .kind = kind, .a = a, .b = b});
}

int64_t sim_hop(struct sim_world *w)
{
    return w->o.hop_ns + (w->o.jitter_ns ? (int64_t)sim_exponential(&w->random, (double)w->o.jitter_ns) : 0);
}

int64_t sim_way(const struct sim_world *w)
{
    return w->o.hop_ns + 7 * w->o.jitter_ns;
}

void sim_note(struct sim_world *w, uint64_t what, uint64_t which)
{
    w->hash = (w->hash ^ what ^ which << 8 ^ (uint64_t)w->now_ns << 20) * UINT64_C(0x9e3779b97f4a7c15);
    w->hash ^= w->hash >> 29;
}

void sim_finish(struct sim_world *w, uint32_t request, enum sim_end end, int64_t at_ns)
{
    struct sim_request *r = &w->requests[request];
    GW_ASSERT(r->open && w->open > 0);
    r->open = false;
    w->open--;
    w->result->requests++;
    sim_note(w, end, (uint64_t)(at_ns - r->start_ns));
    if (r->start_ns >= w->o.warm_ns) {
        bool tight = w->o.tight > 0 && w->models[r->model].deadline_ns == w->o.tight_ns;
        w->result->counted++;
        w->result->ends[end]++;
        w->result->tight += tight;
        w->result->tight_good += tight && end == SIM_GOOD;
        if (end == SIM_GOOD || end == SIM_LATE) w->result->latency[sim_bucket(at_ns - r->start_ns)]++;
    } else {
        w->result->early++;
    }
    w->links[request].next = w->request_free;
    w->request_free = request;
}

uint32_t sim_message(struct sim_world *w, const struct fleet_action *a)
{
    if (w->message_free == FLEET_NONE) {
        uint32_t more = w->message_max ? 2 * w->message_max : 1024;
        w->messages = world_grow(w->messages, more, sizeof *w->messages);
        for (uint32_t i = w->message_max; i < more; i++)
            w->messages[i].next = i + 1 < more ? i + 1 : FLEET_NONE;
        w->message_free = w->message_max;
        w->message_max = more;
    }
    uint32_t id = w->message_free;
    struct sim_message *m = &w->messages[id];
    w->message_free = m->next;
    m->a = *a;
    m->life = w->places[a->place].life;
    m->worker_life = w->workers[a->worker].life;
    return id;
}

void sim_message_free(struct sim_world *w, uint32_t message)
{
    w->messages[message].next = w->message_free;
    w->message_free = message;
}

void sim_ask(struct sim_world *w)
{
    if (w->asked_round_ns) return;
    int64_t at = w->last_round_ns + w->o.round_ns / 4, soon = w->now_ns + sim_way(w);
    w->asked_round_ns = at > soon ? at : soon;
    sim_at(w, w->asked_round_ns, EV_ROUND, 0, 1);
}
