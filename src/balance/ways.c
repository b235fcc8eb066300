/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot says some things twice: here in the form that each packet needs. */
#include "src/balance/ways.h"

#include <string.h>

#include "src/balance/checksum.h"
#include "src/balance/parse.h"
#include "src/trace/trace.h"

static void ways_add_direct(struct bal_snapshot *s, uint32_t service)
{
    const struct bal_service *v = &s->config.service[service];
    if (v->vip.family != 4 || !v->port || v->proto == BAL_ROCE) return;
    uint64_t key = bal_direct_key(v->proto, v->vip.byte, v->port);
    uint32_t i = bal_direct_row(key);
    while (s->direct[i].key) i = (i + 1) % (1 << BAL_DIRECT_BITS);
    s->direct[i] = (struct bal_direct){key, (uint16_t)service};
}

/* From the VIP and its port to the worker's. */
static void ways_set_nat(struct bal_way *way, const struct bal_service *v, const struct bal_worker *w)
{
    uint8_t vip_port[2];
    bal_put16(vip_port, v->port);
    bal_put16(way->port, w->port);
    memcpy(way->addr, w->addr.byte, 4);
    way->nat = true;
    way->addr_change = (uint32_t)bal_sum_change(v->vip.byte, way->addr, 4);
    way->all_change = way->addr_change + (uint32_t)bal_sum_change(vip_port, way->port, 2);
}

static void ways_set(struct bal_snapshot *s, uint32_t i)
{
    const struct bal_worker *w = &s->config.worker[i];
    const struct bal_service *v = &s->config.service[w->service];
    const struct bal_port *p = &s->config.port[w->via];
    struct bal_way *way = &s->way[i];
    way->keeps = w->state != BAL_DOWN;
    way->service = w->service;
    way->via = w->via;
    way->most = p->mtu ? p->mtu : 1500;
    way->neighbour = s->neighbour[i];
    way->mac_known = w->mac_known;
    memcpy(way->mac, w->mac, 6);
    bool nat = v->forward == BAL_NAT && v->vip.family == 4 && v->port && v->proto != BAL_ROCE;
    way->quick = !p->vlan && (v->forward == BAL_DR || nat);
    if (nat) ways_set_nat(way, v, w);
}

static void ways_set_ups(struct bal_snapshot *s, uint32_t service, uint16_t *at)
{
    s->ups[service].first = *at;
    s->ups[service].equal = true;
    for (uint32_t i = 0; i < s->members[service].count; i++) {
        uint16_t w = s->member[s->members[service].first + i];
        if (!bal_is_up(s, w)) continue;
        s->up[*at] = (struct bal_up){w, (uint16_t)s->config.worker[w].weight};
        s->ups[service].equal &= s->up[*at].weight == s->up[s->ups[service].first].weight;
        s->ups[service].count++;
        ++*at;
    }
}

void bal_make_ways(struct bal_snapshot *s)
{
    uint16_t at = 0;
    for (uint32_t i = 0; i < BAL_SERVICES; i++)
        if (s->config.service[i].used) {
            ways_add_direct(s, i);
            ways_set_ups(s, i, &at);
        }
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        const struct bal_worker *w = &s->config.worker[i];
        if (!w->used) continue;
        GW_TRACE(balance, worker, i, w->service, w->addr.byte, w->addr.family, w->port, w->state);
        ways_set(s, i);
    }
}
