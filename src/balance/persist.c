/* SPDX-License-Identifier: Apache-2.0 */
/* A core's table of clients that stick to a worker: sets of eight places. */
#include "src/balance/persist.h"

#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

enum { WAYS = 8, SETS = BAL_CLIENTS / WAYS, KEPT = SETS / 64 /* sets that are looked at each time */ };

enum { FREE, NEW, PROVEN };

struct client {
    uint8_t addr[16];
    uint64_t until_ns;
    uint16_t service, worker;
    uint8_t state;
};

struct bal_clients {
    struct client set[SETS][WAYS];
    uint32_t count[BAL_WORKERS];
    uint32_t at; /* the next set to be looked at */
};

struct bal_clients *bal_clients_new(void)
{
    return calloc(1, sizeof(struct bal_clients));
}

void bal_clients_free(struct bal_clients *c)
{
    free(c);
}

/* The net around an address that counts as one client. */
static void client_net(const struct bal_service *s, const uint8_t *addr, bool ipv6, uint8_t net[16])
{
    unsigned bytes = ipv6 ? 16 : 4, bits = s->persist_bits ? s->persist_bits : 8 * bytes;
    memset(net, 0, 16);
    memcpy(net, addr, bytes);
    for (unsigned i = 0; i < bytes; i++) {
        unsigned kept = bits > 8 * i ? bits - 8 * i : 0;
        if (kept < 8) net[i] &= (uint8_t)(0xff00u >> kept);
    }
}

uint32_t bal_client_core(const struct bal_core *core, uint32_t service, const uint8_t *client, bool ipv6)
{
    uint8_t net[16];
    client_net(&core->snap->config.service[service], client, ipv6, net);
    return bal_owner(core, net, ipv6, 0);
}

static struct client *client_set(const struct bal_core *core, const uint8_t net[16], uint32_t service)
{
    uint64_t a[2];
    memcpy(a, net, sizeof(a));
    uint64_t h = bal_mix(a[0] ^ core->bal->seed[0], a[1] ^ core->bal->seed[1] ^ service);
    return core->clients->set[bal_mix(h, core->bal->seed[0] | 1) % SETS];
}

static struct client *client_find(struct client *set, const uint8_t net[16], uint32_t service)
{
    for (int i = 0; i < WAYS; i++)
        if (set[i].state != FREE && set[i].service == service && !memcmp(set[i].addr, net, 16))
            return &set[i];
    return NULL;
}

static void client_forget(struct bal_core *core, struct client *c)
{
    GW_ASSERT(c->state == FREE || core->clients->count[c->worker]);
    if (c->state != FREE) core->clients->count[c->worker]--;
    c->state = FREE;
}

/* A place for a new client. NULL: all others are proven, and have time left. */
static struct client *client_place(struct bal_core *core, struct client *set)
{
    struct client *best = NULL;
    for (int i = 0; i < WAYS; i++) {
        struct client *c = &set[i];
        if (c->state != FREE && c->until_ns <= core->now_ns) client_forget(core, c);
        if (c->state == FREE) return c;
        if (c->state == NEW && (!best || c->until_ns < best->until_ns)) best = c;
    }
    if (best) client_forget(core, best);
    return best;
}

uint16_t bal_client_worker(struct bal_core *core, const struct bal_work *w)
{
    uint8_t net[16];
    client_net(&core->snap->config.service[w->service], w->client, w->m.ipv6, net);
    const struct client *c = client_find(client_set(core, net, w->service), net, w->service);
    if (!c || c->until_ns <= core->now_ns) return BAL_NO_WORKER;
    return bal_is_up(core->snap, c->worker) && bal_keeps(core->snap, c->worker, w->service) ? c->worker
                                                                                            : BAL_NO_WORKER;
}

void bal_client_chose(struct bal_core *core, uint32_t service, const uint8_t *client, bool ipv6,
                      uint16_t worker)
{
    uint8_t net[16];
    const struct bal_service *s = &core->snap->config.service[service];
    client_net(s, client, ipv6, net);
    struct client *set = client_set(core, net, service), *c = client_find(set, net, service);
    uint8_t state = c ? c->state : NEW;
    if (c)
        client_forget(core, c);
    else if (!(c = client_place(core, set)))
        return;
    *c = (struct client){.until_ns = core->now_ns + s->persist_ns,
                         .service = (uint16_t)service,
                         .worker = worker,
                         .state = state};
    memcpy(c->addr, net, 16);
    core->clients->count[worker]++;
}

void bal_client_seen(struct bal_core *core, const struct bal_work *w, uint16_t worker, bool proven)
{
    uint8_t net[16];
    const struct bal_service *s = &core->snap->config.service[w->service];
    client_net(s, w->client, w->m.ipv6, net);
    struct client *c = client_find(client_set(core, net, w->service), net, w->service);
    if (!c) { /* the time was over, but its connection lives on */
        if (bal_is_up(core->snap, worker)) bal_client_chose(core, w->service, w->client, w->m.ipv6, worker);
        return;
    }
    /* A connection at an older worker, which drains, does not bring the client back there. */
    if (c->worker != worker) return;
    c->until_ns = core->now_ns + s->persist_ns;
    if (proven) c->state = PROVEN;
}

void bal_client_opened(struct bal_core *core, const struct bal_work *w, uint16_t worker, bool begins)
{
    if (begins)
        bal_client_chose(core, w->service, w->client, w->m.ipv6, worker);
    else
        bal_client_seen(core, w, worker, false);
}

void bal_clients_keep(struct bal_core *core)
{
    struct bal_clients *all = core->clients;
    for (int n = 0; n < KEPT; n++, all->at = (all->at + 1) % SETS)
        for (int i = 0; i < WAYS; i++) {
            struct client *c = &all->set[all->at][i];
            if (c->state != FREE && (c->until_ns <= core->now_ns || !bal_persists(core, c->service)))
                client_forget(core, c);
        }
    for (uint32_t w = 0; w < BAL_WORKERS; w++)
        atomic_store_explicit(&core->counters->worker[w].clients, all->count[w], memory_order_relaxed);
}

bool bal_clients_are_sound(const struct bal_clients *c)
{
    uint32_t count[BAL_WORKERS] = {0};
    for (uint32_t i = 0; i < SETS; i++)
        for (int k = 0; k < WAYS; k++)
            if (c->set[i][k].state != FREE) count[c->set[i][k].worker]++;
    return !memcmp(count, c->count, sizeof(count));
}
