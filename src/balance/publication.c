/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration becomes what the cores look things up in. */
#include "src/balance/publication.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/check.h"
#include "src/balance/tables.h"
#include "src/balance/ways.h"

struct publication {
    struct bal_snapshot *s;
    char *error;
    size_t size;
};

static const char *publication_address(const struct bal_addr *addr, char text[INET6_ADDRSTRLEN])
{
    if (!addr->family ||
        !inet_ntop(addr->family == 4 ? AF_INET : AF_INET6, addr->byte, text, INET6_ADDRSTRLEN))
        snprintf(text, INET6_ADDRSTRLEN, "none");
    return text;
}

/* A publication is refused by the first thing that cannot run: its publisher has asked before. */
static void publication_refuse(void *ctx, enum bal_object kind, uint32_t number, const char *why)
{
    static const char *const what[] = {"network port", "service", "worker"};
    const struct publication *p = ctx;
    char text[INET6_ADDRSTRLEN] = "";
    const struct bal_config *c = &p->s->config;
    if (kind == BAL_A_SERVICE) publication_address(&c->service[number].vip, text);
    if (kind == BAL_A_WORKER) publication_address(&c->worker[number].addr, text);
    if (!*p->error) snprintf(p->error, p->size, "%s %u %s: %s", what[kind], number, text, why);
}

/* ---- services and workers ---- */

static void publication_services(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        struct bal_service *v = &s->config.service[i];
        if (!v->used) continue;
        if (v->proto == BAL_ROCE) v->port = 0;
        if (!v->gue_port) v->gue_port = 6080;
        bal_entry_add(
            s->vip, BAL_VIP_ROWS,
            &(struct bal_entry){.addr = v->vip, .port = v->port, .proto = v->proto, .value = (uint16_t)i});
        if (!s->config.mute)
            bal_entry_add(s->vip, BAL_VIP_ROWS, &(struct bal_entry){.addr = v->vip}); /* for bal_is_vip */
        s->services++;
        s->has_any_port |= !v->port && v->proto != BAL_ROCE;
        s->has_nat |= v->forward == BAL_NAT;
        s->has_roce |= v->proto == BAL_ROCE;
    }
}

/* A NAT worker's address leads back to it. */
static void publication_back(struct bal_snapshot *s, uint32_t i)
{
    const struct bal_worker *w = &s->config.worker[i];
    const struct bal_service *v = &s->config.service[w->service];
    uint16_t port = v->proto == BAL_ROCE ? 0 : w->port;
    const struct bal_entry entry = {.addr = w->addr, .port = port, .proto = v->proto, .value = (uint16_t)i};
    const struct bal_entry *e = bal_entry_at(s->back, BAL_BACK_ROWS, &entry);
    s->next_back[i] = e->used ? e->value : BAL_NO_WORKER;
    bal_entry_add(s->back, BAL_BACK_ROWS, &entry);
}

/* The place of a next hop, which is let go with the snapshot. */
static uint32_t publication_hold(struct bal_snapshot *s, uint8_t port, const struct bal_addr *hop)
{
    uint32_t place = bal_neighbour_hold(s->neighbours, port, hop);
    if (place == BAL_NO_NEIGHBOUR) s->no_place = true;
    return place;
}

static void publication_gateways(struct bal_snapshot *s)
{
    for (uint8_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) {
            const struct bal_addr *a = &s->config.port[i].gateway[k];
            if (s->config.port[i].used && a->family)
                s->gateway[i][a->family == 6] = publication_hold(s, i, a);
        }
}

static void publication_release(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_WORKERS; i++) bal_neighbour_release(s->neighbours, s->neighbour[i]);
    for (uint32_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) bal_neighbour_release(s->neighbours, s->gateway[i][k]);
}

static void publication_workers(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        struct bal_worker *w = &s->config.worker[i];
        s->next_back[i] = BAL_NO_WORKER;
        if (!w->used) continue;
        if (!w->port) w->port = s->config.service[w->service].port;
        struct bal_addr hop = w->next_hop;
        if (!hop.family && !bal_route(&s->config.port[w->via], &w->addr, true, &hop)) hop = w->addr;
        if (!w->mac_known) s->neighbour[i] = publication_hold(s, w->via, &hop);
        if (s->config.service[w->service].forward == BAL_NAT) publication_back(s, i);
        s->members[w->service].count++;
    }
    uint16_t at = 0;
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        s->members[i].first = at;
        at = (uint16_t)(at + s->members[i].count);
        s->members[i].count = 0;
    }
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        if (!s->config.worker[i].used) continue;
        uint32_t v = s->config.worker[i].service;
        s->member[s->members[v].first + s->members[v].count++] = (uint16_t)i;
    }
}

void bal_snapshot_free(struct bal_snapshot *s)
{
    if (!s) return;
    bal_tables_free(s);
    publication_release(s);
    free(s);
}

int bal_snapshot_make(struct bal_neighbours *neighbours, const struct bal_config *config,
                      const struct bal_snapshot *last, struct bal_snapshot **out, char *error, size_t size)
{
    struct bal_snapshot *s = calloc(1, sizeof(*s));
    struct publication p = {s, error, size};
    *out = NULL;
    if (!s) return -ENOMEM;
    if (size) *error = 0;
    s->config = *config;
    s->neighbours = neighbours;
    memset(s->neighbour, 0xff, sizeof(s->neighbour)); /* BAL_NO_NEIGHBOUR */
    memset(s->gateway, 0xff, sizeof(s->gateway));
    int err = bal_check_config(&s->config, publication_refuse, &p);
    if (!err && *error) err = -EINVAL;
    if (!err) publication_services(s);
    if (!err) publication_workers(s);
    if (!err) publication_gateways(s);
    if (!err && s->no_place) err = -ENOMEM;
    if (!err) err = bal_tables_make(s, last);
    if (!err) bal_make_ways(s);
    if (err) {
        if (err == -ENOMEM) snprintf(error, size, "no memory for the services' tables");
        bal_snapshot_free(s);
        return err;
    }
    *out = s;
    return 0;
}
