/* SPDX-License-Identifier: Apache-2.0 */
/* demand.c: what a client tells the leader of each model: how much it asks of it. That asks for leases and
 * renews them. */
#include <string.h>

#include "src/fleet/client/impl.h"

#define DEMAND_BUSY_NS   (FLEET_SECOND / 10)   /* between two while there is traffic */
#define DEMAND_IDLE_NS   FLEET_SECOND          /* else */
#define DEMAND_UNUSED_NS (30ll * FLEET_SECOND) /* no traffic for this long: its leases are given back */

enum { DEMAND_MOST_SLOTS = 1024 };

/* A quarter more than was in flight at a time, and what waits. */
static uint32_t demand_slots(const struct fleet_client_model *m)
{
    uint32_t peak = m->count.flying > m->flying ? m->count.flying : m->flying;
    uint64_t want = (uint64_t)peak + peak / 4 + m->waiting.n + 1;
    return want < DEMAND_MOST_SLOTS ? (uint32_t)want : DEMAND_MOST_SLOTS;
}

static void demand_send(struct fleet_client_model *m, int64_t now, bool over)
{
    struct fleet_client *c = m->client;
    struct fleet_demand_message d = {.version = m->version,
                                     .slots = demand_slots(m),
                                     .deadline_ns = m->deadline_ns,
                                     .since_ns = m->told_at ? now - m->told_at : 0,
                                     .offered = m->count.offered,
                                     .answered = m->count.answered,
                                     .late = m->count.late,
                                     .refused = m->count.refused,
                                     .waiting = m->waiting.n,
                                     .over = over};
    struct fleet_told told = {.at = now};
    memcpy(d.model, m->name, sizeof d.model);
    if (fleet_send(c->leader.conn, FLEET_DEMAND, 0, &d, sizeof d, NULL, 0, &told.seq)) return;
    m->told[m->told_next++ % FLEET_DEMANDS_KEPT] = told;
    m->told_at = now;
    m->count = (struct fleet_demand_count){0};
    m->asking = !over;
    c->stats.demands++;
}

static void demand_is_due(void *ctx)
{
    fleet_demand_tell(ctx);
}

void fleet_demand_tell(struct fleet_client_model *m)
{
    struct fleet_client *c = m->client;
    int64_t now = fleet_loop_now(c->loop);
    bool busy = m->count.offered || m->flying || m->waiting.n;
    bool over = !busy && now - m->used_at > DEMAND_UNUSED_NS;
    fleet_timer_clear(c->loop, &m->tick);
    if (c->leader.welcome) demand_send(m, now, over);
    if (over) {
        m->asking = false;
        return;
    }
    /* Without memory for a timer the next request tries again. */
    fleet_timer_set(c->loop, &m->tick, now + (busy ? DEMAND_BUSY_NS : DEMAND_IDLE_NS), demand_is_due, m);
}

void fleet_demand_used(struct fleet_client_model *m, int64_t now)
{
    m->used_at = now;
    if (m->tick.at && m->tick.at <= now + DEMAND_BUSY_NS) return;
    if (!m->asking || now - m->told_at >= DEMAND_BUSY_NS)
        fleet_demand_tell(m);
    else
        fleet_timer_set(m->client->loop, &m->tick, m->told_at + DEMAND_BUSY_NS, demand_is_due, m);
}

void fleet_demand_all(struct fleet_client *c)
{
    pthread_mutex_lock(&c->lock);
    struct fleet_client_model *m = c->all;
    pthread_mutex_unlock(&c->lock);
    for (; m; m = m->next) {
        memset(m->told, 0, sizeof m->told); /* another leader, or one that knows nothing of these */
        m->admit = (struct fleet_admit){0};
        if (m->tick.at || m->waiting.n) fleet_demand_tell(m);
    }
}
